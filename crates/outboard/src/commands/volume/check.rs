//! `outboard volume check`: whether all disks of a group have the same, good metadata, and these make sense.

use nodes::volume::edit::used_runs;
use nodes::volume::group::{AssembledGroup, select};
use nodes::volume::scan::AreaScan;
use serde::Serialize;

use super::open_group::{OpenDisk, assemble_disks, open_disks, unopened};
use super::status::assembled_names;
use crate::commands::inspect::on_the_engine;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::{Format, columns};

/// Arguments of `volume check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// All disks of the group: files, devices or any other disks; they may be in use
    #[arg(value_name = "DISK", required = true)]
    disks: Vec<String>,

    /// The group, if the disks are of several
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
}

/// What was found.
#[derive(Debug, Serialize)]
struct VolumeCheck {
    group: String,
    sequence: u64,
    areas: Vec<AreaCheck>,
    problems: Vec<String>,
}

/// A metadata area.
#[derive(Debug, Serialize)]
struct AreaCheck {
    disk: String,
    /// First byte.
    offset: u64,
    state: &'static str,
    /// Sequence number of its text.
    sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Checks.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let check = on_the_engine(async || Box::pin(find(args)).await)?;
    format.print(&check, || check.text())?;
    match check.problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::reported()),
    }
}

async fn find(args: &Args) -> Result<VolumeCheck, Failure> {
    let mut builder = Builder::looking();
    let disks = open_disks(&mut builder, &args.disks).await?;
    let groups = assemble_disks(&disks);
    let assembled = select(&groups, args.group.as_deref()).map_err(|error| unopened(&error))?;
    Ok(VolumeCheck::of(assembled, &disks))
}

impl VolumeCheck {
    fn of(assembled: &AssembledGroup, disks: &[OpenDisk]) -> Self {
        let group = &assembled.group;
        let areas: Vec<AreaCheck> = disks
            .iter()
            .flat_map(|disk| {
                let areas = disk.scan.areas.iter();
                areas.map(|area| AreaCheck::of(&disk.name, area, group.sequence))
            })
            .collect();
        let mut problems: Vec<String> = assembled.remarks.iter().map(ToString::to_string).collect();
        if let Some((first, second)) = assembled.conflict {
            let (first, second) = (&assembled.names[first], &assembled.names[second]);
            problems.push(format!(
                "{first} and {second} have different metadata with the same sequence number"
            ));
        }
        for area in &areas {
            // Damage is among the remarks, unless it is all that the disk has.
            let disk = &area.disk;
            match (&area.problem, area.state) {
                (Some(problem), _) if !problems.iter().any(|known| known.contains(problem)) => {
                    problems.push(format!(
                        "{disk} has a damaged copy of the metadata: {problem}"
                    ));
                }
                (_, "outdated")
                    if !problems
                        .iter()
                        .any(|known| known.starts_with(disk.as_str())) =>
                {
                    problems.push(format!("{disk} has outdated metadata"));
                }
                (_, "empty") => problems.push(format!("{disk} has no metadata")),
                _ => {}
            }
        }
        let names = assembled_names(assembled);
        for disk in disks
            .iter()
            .filter(|disk| disk.scan.header.used == Some(false))
        {
            if names.values().any(|name| *name == disk.name) {
                let disk = &disk.name;
                problems.push(format!(
                    "the label of {disk} does not say that it is in use"
                ));
            }
        }
        problems.extend(group.unknown_flag().map(|unknown| unknown.to_string()));
        problems.extend(used_runs(group).err().map(|error| error.to_string()));
        Self {
            group: group.name.clone(),
            sequence: group.sequence,
            areas,
            problems,
        }
    }

    fn text(&self) -> String {
        let rows: Vec<[String; 4]> = self
            .areas
            .iter()
            .map(|area| {
                let sequence = area.sequence.map_or_else(String::new, |n| n.to_string());
                let place = format!("byte {}", area.offset);
                [area.disk.clone(), place, area.state.to_owned(), sequence]
            })
            .collect();
        let mut lines = vec![match self.problems.len() {
            0 => format!("{}: good, change {}", self.group, self.sequence),
            1 => format!("{}: 1 problem, change {}", self.group, self.sequence),
            count => format!("{}: {count} problems, change {}", self.group, self.sequence),
        }];
        lines.extend(columns(&rows).lines().map(|line| format!("  {line}")));
        lines.extend(
            self.problems
                .iter()
                .map(|problem| format!("  problem: {problem}")),
        );
        if !self.problems.is_empty() {
            let next =
                "outboard volume repair writes the newest metadata over outdated and damaged ones";
            lines.push(format!("  {next}"));
        }
        lines.join("\n")
    }
}

impl AreaCheck {
    fn of(disk: &str, area: &AreaScan, newest: u64) -> Self {
        let is_ignored = area.header.as_ref().is_ok_and(|header| header.ignored);
        let (state, sequence, problem) = match &area.text {
            Err(problem) => ("damaged", None, Some(problem.to_string())),
            Ok(None) if is_ignored => ("ignored", None, None),
            Ok(None) => ("empty", None, None),
            Ok(Some(text)) if text.group.sequence < newest => {
                ("outdated", Some(text.group.sequence), None)
            }
            Ok(Some(text)) => ("good", Some(text.group.sequence), None),
        };
        Self {
            disk: disk.to_owned(),
            offset: area.area.offset,
            state,
            sequence,
            problem,
        }
    }
}

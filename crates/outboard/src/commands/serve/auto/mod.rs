//! `serve --auto`: exports what is found on the disks, by stable names.
//!
//! ```text
//! part/2             partition 2 of the only disk
//! whole              the only disk, which has no partitions
//! NAME/part/2        the same of several disks, NAME being what is before `=`, or the file's name
//! md/photos          the array of that name, of members on any of the disks
//! md/photos/part/2   partition 2 of it
//! lvm/vg0/media      the volume media of the group vg0
//! ```
//!
//! # Invariants
//!
//! * What is found decides the names, not the order of looking: the same disk gives the same names.
//! * What belongs to something larger (a member of an array, a physical volume) is left out, and so is
//!   unrecognized content: a write to it alone would damage what it belongs to.
//! * Exports are read-only unless writing is requested.

mod arrays;
mod choose;
mod sources;
#[cfg(test)]
mod tests;
mod volumes;

use serde::Serialize;

use super::exports::free;
use crate::commands::inspect::{contents, on_the_engine};
use crate::config::ExportPlan;
use crate::failure::Failure;
use crate::graph::{NamedDisk, resolve};
use crate::output::{Format, columns};
use choose::{ChosenDisk, LeftOut, choose, prefixes};
use sources::Sources;

/// What is exported, and what is not.
#[derive(Debug, Serialize)]
struct AutoReport {
    exports: Vec<AutoExport>,
    left_out: Vec<LeftOut>,
}

/// An export in the output.
#[derive(Debug, Serialize)]
struct AutoExport {
    name: String,
    content: String,
    read_only: bool,
}

/// Looks at the disks, says what will be served, and plans it.
pub(super) fn plan(
    texts: &[String],
    writable: bool,
    format: Format,
) -> Result<Vec<ExportPlan>, Failure> {
    let disks: Vec<NamedDisk> = texts
        .iter()
        .map(|text| resolve(text))
        .collect::<Result<_, _>>()?;
    let prefixes = prefixes(&disks)?;
    let (contents, arrays, groups) = on_the_engine(async || Box::pin(contents(&disks)).await)?;
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for ((disk, prefix), content) in disks.iter().zip(&prefixes).zip(&contents) {
        let mut found = choose(disk, prefix, content);
        chosen.append(&mut found.chosen);
        left_out.append(&mut found.left_out);
    }
    let sources = Sources {
        disks: &disks,
        arrays: &arrays,
        groups: &groups,
        run: !writable,
    };
    for mut found in [arrays::choose(sources), volumes::choose(sources, writable)] {
        chosen.append(&mut found.chosen);
        left_out.append(&mut found.left_out);
    }
    if chosen.is_empty() {
        let why = left_out
            .iter()
            .map(|out| format!("{}: {}", out.what, out.why));
        let why: Vec<String> = why.collect();
        let failure = Failure::new(format!("nothing to serve was found: {}", why.join("; ")));
        return Err(failure.next("`outboard serve DISK` serves a disk as it is"));
    }
    print_report(&chosen, left_out, !writable, format)?;
    let plan = |chosen: ChosenDisk| {
        let mut plans = free(vec![chosen.disk], !writable);
        let plan = plans.pop().expect("each disk gives a plan");
        ExportPlan {
            description: chosen.content,
            ..plan
        }
    };
    Ok(chosen.into_iter().map(plan).collect())
}

fn print_report(
    chosen: &[ChosenDisk],
    left_out: Vec<LeftOut>,
    read_only: bool,
    format: Format,
) -> Result<(), Failure> {
    let exports = chosen.iter().map(|chosen| AutoExport {
        name: chosen.name().to_owned(),
        content: chosen.content.clone(),
        read_only,
    });
    let found = AutoReport {
        exports: exports.collect(),
        left_out,
    };
    format.print(&found, || found.text())
}

impl AutoReport {
    fn text(&self) -> String {
        let exports = self.exports.iter().map(|export| {
            let access = if export.read_only {
                "read-only"
            } else {
                "writable"
            };
            [
                export.name.clone(),
                access.to_owned(),
                export.content.clone(),
            ]
        });
        let left_out = self.left_out.iter();
        let left_out =
            left_out.map(|out| [out.what.clone(), "left out".to_owned(), out.why.clone()]);
        let rows: Vec<[String; 3]> = exports.chain(left_out).collect();
        columns(&rows)
    }
}

//! Which disk is served under which name. Pure.

use std::path::PathBuf;

use nbd::server::Rules;

use crate::config::{ExportPlan, OverlayPlan, StandbyOptions, WriterOptions, WrittenDisk, standby};
use crate::control::AddedExport;
use crate::failure::Failure;
use crate::graph::{NamedDisk, resolve};

/// Most exports of one server.
const EXPORTS_MAX: usize = 4096;

/// Whether and how clients write to an export.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WriteArgs {
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,

    /// How many clients may write at the same time
    #[arg(long, value_name = "1|many", default_value = "1", value_parser = writers)]
    writers: Writers,

    /// Record the single writer next to the disk: after a takeover the old writer is refused for good
    #[arg(long)]
    single_writer: bool,

    /// With --single-writer: where, for a disk that is not one file
    #[arg(long, value_name = "PATH", requires = "single_writer")]
    writer_file: Option<PathBuf>,
}

impl WriteArgs {
    /// The options about writers.
    pub(crate) fn writers(&self) -> WriterOptions {
        WriterOptions {
            many: self.writers == Writers::Many,
            single: self.single_writer,
            record: self.writer_file.clone(),
        }
    }
}

/// `--writers`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writers {
    One,
    Many,
}

fn writers(text: &str) -> Result<Writers, String> {
    match text {
        "1" => Ok(Writers::One),
        "many" => Ok(Writers::Many),
        _ => Err("the writers of an export are 1 or many".to_owned()),
    }
}

/// Understands the disks of the command line and checks their names.
///
/// The first disk is also what a client gets that names none, so only that one may go without a
/// name of its own.
pub(super) fn plan(texts: &[String], read_only: bool) -> Result<Vec<NamedDisk>, Failure> {
    if texts.len() > EXPORTS_MAX {
        return Err(Failure::usage(format!("more than {EXPORTS_MAX} disks")));
    }
    let mut disks: Vec<NamedDisk> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let disk = resolve(text)?;
        if read_only && !disk.disk.can_be_read_only() {
            let what = format!("the disk `{text}` cannot be read-only");
            return Err(Failure::usage(what).next("nothing would ever be on it: omit --read-only"));
        }
        match &disk.name {
            None if index > 0 => {
                let what = format!("the disk `{text}` has no name");
                return Err(Failure::usage(what).next("write NAME=DISK for all but the first"));
            }
            Some(name) if disks.iter().any(|other| other.name.as_ref() == Some(name)) => {
                return Err(Failure::usage(format!("two disks are named `{name}`")));
            }
            _ => disks.push(disk),
        }
    }
    Ok(disks)
}

/// The exports of the command line, without access rules.
pub(super) fn free(disks: Vec<NamedDisk>, read_only: bool) -> Vec<ExportPlan> {
    let export = |disk: NamedDisk| ExportPlan {
        name: disk.name.clone().unwrap_or_default(),
        // The expression would show the server's paths to every client.
        description: String::new(),
        disk,
        read_only,
        rules: Rules::default(),
        overlay: None,
        is_standby: false,
        is_added: false,
    };
    disks.into_iter().map(export).collect()
}

/// The export that a command adds, on a disk that is written without a name.
pub(crate) fn plan_added(added: &AddedExport) -> Result<ExportPlan, Failure> {
    let name = added.name.clone();
    let disks = plan(std::slice::from_ref(&added.disk), added.read_only)?;
    let mut plans = free(disks, added.read_only);
    let plan = plans.pop().expect("each disk gives a plan");
    if !plan.name.is_empty() || name.is_empty() {
        let names = if name.is_empty() {
            "no name"
        } else {
            "two names"
        };
        let what = format!("the disk `{}` has {names}", plan.disk.text);
        return Err(Failure::usage(what).next("write NAME=DISK"));
    }
    let plan = ExportPlan {
        name,
        is_added: true,
        ..plan
    };
    with_standby(with_writers(plan, &added.writers)?, added.is_standby)
}

/// The same with an overlay for each client, by `plan`.
pub(super) fn with_overlays(
    export: ExportPlan,
    plan: Option<&OverlayPlan>,
) -> Result<ExportPlan, Failure> {
    let overlay = plan.cloned();
    if overlay.is_some() && !export.disk.disk.is_image() {
        let what = format!("`{}` is no image to put overlays over", export.disk.text);
        return Err(Failure::usage(what).next("it would be empty at each start"));
    }
    if let Some(overlay) = &overlay {
        let checked = overlay.place.check(&export.disk.disk);
        checked.map_err(|why| Failure::usage(format!("`{}`: {why}", export.disk.text)))?;
    }
    // What clients write is theirs, and the disk is read-only in any case.
    let read_only = export.read_only && overlay.is_none();
    Ok(ExportPlan {
        overlay,
        read_only,
        ..export
    })
}

/// The same in standby, where `is_standby`.
pub(super) fn with_standby(export: ExportPlan, is_standby: bool) -> Result<ExportPlan, Failure> {
    let options = StandbyOptions {
        read_only: export.read_only,
        has_overlays: export.overlay.is_some(),
        has_record: export.rules.writers.record.is_some(),
    };
    if is_standby {
        let allowed = standby(&export.disk.disk, options);
        allowed.map_err(|why| Failure::usage(format!("`{}`: {why}", export.disk.text)))?;
    }
    Ok(ExportPlan {
        is_standby,
        ..export
    })
}

/// The same, with writers as the command line says.
pub(super) fn with_writers(
    export: ExportPlan,
    options: &WriterOptions,
) -> Result<ExportPlan, Failure> {
    let rules = options.clone().rules(WrittenDisk {
        disk: &export.disk.disk,
        read_only: export.read_only,
        has_overlays: export.overlay.is_some(),
    });
    let writers = rules.map_err(|why| Failure::usage(format!("`{}`: {why}", export.disk.text)))?;
    Ok(ExportPlan {
        rules: Rules {
            writers,
            ..export.rules
        },
        ..export
    })
}

//! Which disk is served under which name. Pure.

use nbd::server::Rules;

use crate::config::{ExportPlan, OverlayPlan, WriterOptions, WrittenDisk};
use crate::failure::Failure;
use crate::graph::{NamedDisk, resolve};

/// Most exports of one server.
const EXPORTS_MAX: usize = 4096;

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
    };
    disks.into_iter().map(export).collect()
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
    // What clients write is theirs, and the disk is read-only in any case.
    let read_only = export.read_only && overlay.is_none();
    Ok(ExportPlan {
        overlay,
        read_only,
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

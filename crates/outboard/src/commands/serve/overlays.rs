//! Overlays of clients while they are served: whether their images are what they were, and their
//! removal.

use nbd::server::{ClientDiskFigures, Control};

use super::open_export::{OpenExport, Opening};
use crate::config::{Changes, ExportPlan, ServerPlan};
use crate::control::{ControlAnswer, DropOverlay, DroppedOverlay};
use crate::failure::Failure;

/// The exports with overlays where another image is at the same path now, and warnings about images that could not
/// be checked.
pub(super) async fn changed_images(
    open: &[OpenExport],
    new: &ServerPlan,
    changes: &Changes,
) -> (Vec<ExportPlan>, Vec<String>) {
    let (mut changed, mut warnings) = (Vec::new(), Vec::new());
    for export in &new.exports {
        let mut opened = changes
            .add
            .iter()
            .chain(&changes.replace)
            .chain(&changes.renew);
        let before = open.iter().find(|open| open.name == export.name);
        let Some(image) = before.and_then(OpenExport::image) else {
            continue;
        };
        // Those are opened in any case.
        if opened.any(|other| other.name == export.name) {
            continue;
        }
        let mut look = Opening::default();
        match Box::pin(look.open(export)).await {
            Ok(()) if look.done().iter().all(|now| now.image() == Some(image)) => {}
            Ok(()) => changed.push(export.clone()),
            Err(e) => {
                let why = Failure::from(e).text();
                warnings.push(format!("export {:?} keeps its image: {why}", export.name));
            }
        }
    }
    (changed, warnings)
}

/// Removes what `which` names. An error if that is nothing, or if a single one could not be removed.
pub(super) async fn drop_overlays(
    control: &Control,
    which: DropOverlay,
) -> Result<ControlAnswer, String> {
    let found = found(control, &which).await?;
    let (mut dropped, mut kept) = (Vec::new(), Vec::new());
    for (export, disk) in found {
        let client = disk.name.to_string();
        let removal = control.remove_client_disk(&export, &disk.name, &disk.image_id, which.force);
        match removal.await {
            Ok(()) => {
                tracing::info!(export, client, "its overlay over {} is dropped", disk.image);
                dropped.push(DroppedOverlay {
                    export,
                    client,
                    image: disk.image,
                    bytes: disk.bytes,
                });
            }
            Err(e) => kept.push(e.to_string()),
        }
    }
    if dropped.is_empty() && !kept.is_empty() {
        return Err(kept.join("; "));
    }
    Ok(ControlAnswer::Dropped { dropped, kept })
}

/// The selected overlays with their exports.
async fn found(
    control: &Control,
    which: &DropOverlay,
) -> Result<Vec<(String, ClientDiskFigures)>, String> {
    let control = control.clone();
    // They are looked for in their folders.
    let figures = engine::blocking(move || control.figures()).await;
    let is_meant = |name: &str| which.export.as_deref().is_none_or(|meant| meant == name);
    let mut with_overlays = Vec::new();
    for export in figures.exports {
        if let (true, Some(disks)) = (is_meant(&export.name), export.client_disks) {
            with_overlays.push((export.name, disks));
        }
    }
    if with_overlays.is_empty() {
        return Err(match &which.export {
            Some(name) => format!("there is no export {name:?} whose clients have overlays"),
            None => "no export here gives its clients overlays".to_owned(),
        });
    }
    let mut found = Vec::new();
    for (export, disks) in with_overlays {
        let meant = disks.into_iter().filter(|disk| {
            let client = which.client.as_deref();
            disk.is_older == which.older && client.is_none_or(|c| c == disk.name.to_string())
        });
        found.extend(meant.map(|disk| (export.clone(), disk)));
    }
    let mut exports: Vec<&str> = found.iter().map(|(export, _)| export.as_str()).collect();
    exports.dedup();
    match (&which.client, exports.as_slice()) {
        (Some(client), []) => Err(format!("client {client} has no such overlay")),
        (Some(client), several @ [_, _, ..]) => Err(format!(
            "client {client} has overlays at several exports ({}); choose one with --export",
            several.join(", ")
        )),
        _ => Ok(found),
    }
}

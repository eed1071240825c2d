//! A disk behind our own server: attached from there and mounted, or measured by fio's own client.

use std::path::PathBuf;

use lab::plan::{Target, TargetKind};
use lab::runner::LeftOut;

use super::disk::below;
use super::step::{BuildStep, Recipe, RecipeResult};

/// The export's name.
const EXPORT: &str = "disk";

/// What is below the disk, the server, and the attachment if there is a filesystem.
pub(super) fn recipe(target: &Target, folder: PathBuf) -> Result<Recipe, LeftOut> {
    let TargetKind::Served {
        disk,
        images,
        filesystem,
        transport,
        via,
        setup,
        ..
    } = &target.kind
    else {
        return Err(LeftOut("it is not served".into()));
    };
    if images.iter().any(|image| image.name == EXPORT) {
        return Err(LeftOut(format!("an image cannot be named {EXPORT:?} here")));
    }
    let mut steps = below(images, setup, &folder)?;
    steps.push(BuildStep::Serve {
        name: EXPORT.to_owned(),
        disk: disk.clone(),
        transport: *transport,
        folder: folder.clone(),
    });
    let Some(filesystem) = filesystem else {
        return Ok(Recipe {
            steps,
            place: RecipeResult::Export,
        });
    };
    Ok(Recipe::mounted(steps, &folder, |directory| {
        BuildStep::Attach {
            disk: format!("{{{EXPORT}}}"),
            via: *via,
            mount: Some((directory, filesystem.clone())),
            read_only: false,
        }
    }))
}

//! A disk without a filesystem: attached, a device that is there, or an export of someone.

use std::path::PathBuf;

use lab::plan::{Target, TargetKind, Via};
use lab::runner::LeftOut;

use super::disk::below;
use super::step::{BuildStep, Recipe, RecipeResult};

/// An attachment, or nothing.
pub(super) fn recipe(target: &Target, folder: PathBuf) -> Result<Recipe, LeftOut> {
    let TargetKind::Raw {
        disk,
        device,
        uri,
        images,
        setup,
        writes,
    } = &target.kind
    else {
        return Err(LeftOut("it is no raw disk".into()));
    };
    match (disk, device, uri) {
        (Some(disk), None, None) => {
            let mut steps = below(images, setup, &folder)?;
            steps.push(BuildStep::Attach {
                disk: disk.clone(),
                via: Via::Auto,
                mount: None,
                read_only: !writes,
            });
            Ok(Recipe {
                steps,
                place: RecipeResult::Device,
            })
        }
        (None, Some(device), None) => match device.exists() {
            true => Ok(Recipe {
                steps: Vec::new(),
                place: RecipeResult::Given(device.clone()),
            }),
            false => Err(LeftOut(format!("there is no {}", device.display()))),
        },
        (None, None, Some(uri)) => Ok(Recipe {
            steps: Vec::new(),
            place: RecipeResult::Uri(uri.clone()),
        }),
        _ => Err(LeftOut(
            "it has none or several of disk, device and uri".into(),
        )),
    }
}

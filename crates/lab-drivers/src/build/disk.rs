//! A disk with a filesystem, mounted: images, an expression over them, our attachment or a loop device.

use std::path::{Path, PathBuf};

use lab::plan::{Image, Target, TargetKind, Via};
use lab::runner::LeftOut;

use super::step::{BuildStep, Recipe};

/// Images, arrays on them, an attachment with a new filesystem.
pub(super) fn recipe(target: &Target, folder: PathBuf) -> Result<Recipe, LeftOut> {
    let TargetKind::Disk {
        disk,
        images,
        filesystem,
        via,
        setup,
        ..
    } = &target.kind
    else {
        return Err(LeftOut("it is no disk".into()));
    };
    let steps = below(images, setup, &folder)?;
    Ok(match via {
        Via::Loop => {
            let image = bare(disk, images)?.name.clone();
            Recipe::mounted(steps, &folder, |directory| BuildStep::Loop {
                image,
                filesystem: filesystem.clone(),
                directory,
            })
        }
        _ => Recipe::mounted(steps, &folder, |directory| BuildStep::Attach {
            disk: disk.clone(),
            via: *via,
            mount: Some((directory, filesystem.clone())),
            read_only: false,
        }),
    })
}

/// What is below an expression: the folder, the images, servers before some of them, superblocks.
pub(super) fn below(
    images: &[Image],
    setup: &[String],
    folder: &Path,
) -> Result<Vec<BuildStep>, LeftOut> {
    let mut steps = vec![BuildStep::Folder(folder.to_owned())];
    for image in images {
        let name = image.name.clone();
        steps.push(BuildStep::Image {
            path: folder.join(format!("{name}.img")),
            name: name.clone(),
            size: image.size,
        });
        if let Some(transport) = image.served {
            steps.push(BuildStep::Serve {
                disk: format!("{{{name}}}"),
                name,
                transport,
                folder: folder.to_owned(),
            });
        }
    }
    for line in setup {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if words.get(..2) != Some(&["array".to_owned(), "create".to_owned()][..]) {
            return Err(LeftOut(format!(
                "its setup is {line:?}, and only `array create` is run"
            )));
        }
        steps.push(BuildStep::Own(words));
    }
    Ok(steps)
}

/// The image that is the whole disk.
fn bare<'a>(disk: &str, images: &'a [Image]) -> Result<&'a Image, LeftOut> {
    let image = images
        .iter()
        .find(|image| disk == format!("{{{}}}", image.name));
    let image = image.filter(|image| image.served.is_none());
    image.ok_or_else(|| LeftOut("a loop device stands on one image and on nothing else".to_owned()))
}

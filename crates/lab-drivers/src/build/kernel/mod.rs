//! A disk that the kernel makes of images: loop devices, its NBD client, md, device mapper and LVM.
//!
//! What each layer is made by is in [`layer`] (pure); [`carry_out`] runs that.
//!
//! # What it deliberately does not do
//!
//! It touches no array, no group and no table that it did not make: each has a name of this process, and
//! LVM is shown our devices alone.

mod carry_out;
mod layer;

use std::path::PathBuf;

use lab::plan::{Image, Layer, Target, TargetKind};
use lab::runner::LeftOut;

use super::disk::below;
use super::names::Names;
use super::step::{BuildStep, Recipe, line, loop_words};
use layer::LayerDevice;

/// Placeholder of a device that is not there yet, where commands are shown.
const TO_BE: &str = "LOOP";

/// One operation of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum KernelStep {
    /// The image of this name becomes a loop device, which the name refers to from then on.
    Loop(String),
    /// The export of this name becomes a device of the NBD client, which the name refers to from then on.
    Nbd(String),
    /// One device of several.
    Layer {
        /// How.
        layer: Layer,
        /// What it is called in the system.
        label: String,
        /// Of these, by their names.
        parts: Vec<LayerDevice>,
        /// Its name.
        made: String,
    },
    /// A new filesystem on the device of this name.
    Mount {
        /// Its name.
        device: String,
        /// Which filesystem.
        filesystem: String,
        /// Where.
        directory: PathBuf,
    },
}

/// The images as devices, the layers on them, a filesystem. `number` distinguishes this target from the others.
pub(super) fn recipe(target: &Target, folder: PathBuf, number: usize) -> Result<Recipe, LeftOut> {
    let TargetKind::Kernel {
        images,
        layers,
        filesystem,
        ..
    } = &target.kind
    else {
        return Err(LeftOut("it is no disk of the kernel's".into()));
    };
    let mut steps = below(images, &[], &folder)?;
    steps.extend(images.iter().map(device));
    let mut parts: Vec<LayerDevice> = images.iter().map(part).collect();
    for (at, layer) in layers.iter().enumerate() {
        let made = format!("layer.{at}");
        let on_top = LayerDevice {
            device: format!("{{{made}}}"),
            size: None,
        };
        steps.push(BuildStep::Kernel(KernelStep::Layer {
            layer: *layer,
            label: format!("outboard{}_{number}_{at}", std::process::id()),
            parts: std::mem::replace(&mut parts, vec![on_top]),
            made,
        }));
    }
    let [top] = &parts[..] else {
        return Err(LeftOut("nothing makes one device of its images".into()));
    };
    let top = top.device.clone();
    Ok(Recipe::mounted(steps, &folder, |directory| {
        BuildStep::Kernel(KernelStep::Mount {
            device: top,
            filesystem: filesystem.clone(),
            directory,
        })
    }))
}

fn device(image: &Image) -> BuildStep {
    let name = image.name.clone();
    BuildStep::Kernel(match image.served {
        Some(_) => KernelStep::Nbd(name),
        None => KernelStep::Loop(name),
    })
}

fn part(image: &Image) -> LayerDevice {
    LayerDevice {
        device: format!("{{{}}}", image.name),
        size: Some(image.size),
    }
}

impl KernelStep {
    /// Notes what is known of its name before it is taken.
    pub(super) fn name(&self, names: &mut Names) {
        match self {
            Self::Loop(name) => names.set(name, &format!("{TO_BE}-{name}")),
            Self::Nbd(name) => names.set(name, &format!("NBD-{name}")),
            Self::Layer {
                layer, label, made, ..
            } => names.set(made, &layer::device(*layer, label)),
            Self::Mount { .. } => {}
        }
    }

    /// The commands that do the same by hand.
    pub(super) fn shown(&self, names: &Names) -> Vec<String> {
        match self {
            Self::Loop(name) => {
                let image = names.word(&format!("{{{name}}}"));
                vec![line(&loop_words(&image))]
            }
            Self::Nbd(name) => {
                let uri = names.word(&format!("{{{name}}}"));
                vec![line(&["outboard", "attach", &uri, "--via", "kernel"])]
            }
            Self::Layer {
                layer,
                label,
                parts,
                ..
            } => match layer::commands(*layer, label, &named(parts, names)) {
                Ok(commands) => commands.make.iter().map(|words| line(words)).collect(),
                Err(why) => vec![format!("# {why}")],
            },
            Self::Mount {
                device,
                filesystem,
                directory,
            } => {
                let device = names.word(device);
                vec![
                    line(&[&format!("mkfs.{filesystem}"), &device]),
                    line(&["mount", &device, &directory.to_string_lossy()]),
                ]
            }
        }
    }
}

/// The parts with what their names stand for now.
fn named(parts: &[LayerDevice], names: &Names) -> Vec<LayerDevice> {
    let named = parts.iter().map(|part| LayerDevice {
        device: names.word(&part.device),
        size: part.size,
    });
    named.collect()
}

#[cfg(test)]
mod tests;

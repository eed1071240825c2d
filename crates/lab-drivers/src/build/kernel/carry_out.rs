//! Devices of the kernel's, made one after the other.
//!
//! Invariant: what takes a device away is noted before anything is put on it.

use lab::plan::Via;

use super::{KernelStep, layer, named};
use crate::build::carry_out::TargetBuild;
use crate::build::step::loop_words;

impl TargetBuild<'_> {
    /// Takes one of these steps.
    pub(in super::super) fn kernel(&mut self, step: &KernelStep) -> Result<(), String> {
        match step {
            KernelStep::Loop(name) => {
                let image = self.names.word(&format!("{{{name}}}"));
                let device = self.run_noted(&loop_words(&image))?;
                let device = device.trim();
                self.undo(&["losetup", "--detach", device]);
                self.names.set(name, device);
                Ok(())
            }
            KernelStep::Nbd(name) => {
                self.commands.extend(step.shown(&self.names));
                self.attach(&format!("{{{name}}}"), Via::Kernel, None, false)?;
                let device = self.device.clone().ok_or("the attachment has no device")?;
                self.names.set_path(name, &device);
                Ok(())
            }
            KernelStep::Layer {
                layer,
                label,
                parts,
                made,
            } => {
                let commands = layer::commands(*layer, label, &named(parts, &self.names))?;
                for (at, words) in commands.make.iter().enumerate() {
                    // The last one makes the device; what an earlier one left goes with the devices below.
                    self.run_noted(words)?;
                    if at + 1 == commands.make.len() {
                        self.undo(&commands.undo);
                    }
                }
                self.names.set(made, &layer::device(*layer, label));
                Ok(())
            }
            KernelStep::Mount {
                device,
                filesystem,
                directory,
            } => {
                let device = self.names.word(device);
                self.run_noted(&[&format!("mkfs.{filesystem}"), &device])?;
                self.mount(&["mount", &device], directory)
            }
        }
    }
}

//! Devices of the kernel's, made one after the other.
//!
//! Invariant: what takes a device away is noted before anything is put on it.

use std::path::Path;

use lab::plan::Via;

use super::{KernelStep, layer, loop_words, named};
use crate::commands::lab::build::carry_out::Work;
use crate::commands::lab::build::standing::Part;

impl Work<'_> {
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
                self.note_kernel(step);
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
                    self.run_owned(words)?;
                    if at + 1 == commands.make.len() {
                        self.undo_owned(&commands.undo);
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

    fn note_kernel(&mut self, step: &KernelStep) {
        self.commands.extend(step.shown(&self.names));
    }

    fn run_owned(&mut self, words: &[String]) -> Result<String, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.run_noted(&words)
    }

    /// What takes away what was just made.
    pub(in super::super) fn undo(&mut self, words: &[&str]) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        self.undo_owned(&words);
    }

    fn undo_owned(&mut self, words: &[String]) {
        self.standing.add(Part::Made(words.to_owned()));
    }

    /// Mounts with `words` and the directory behind them.
    pub(in super::super) fn mount(
        &mut self,
        words: &[&str],
        directory: &Path,
    ) -> Result<(), String> {
        let at = directory.to_string_lossy();
        self.run_noted(&[words, &[&at]].concat())?;
        self.standing.add(Part::Mount(directory.to_owned()));
        Ok(())
    }
}

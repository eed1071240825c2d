//! Disks, files and exports that an expression names and that are not ours: they are written only as far
//! as the lab's rules for raw writes allow, through any nodes between them and the target.

use std::path::{Path, PathBuf};

use lab::host::safety::ExportContent;
use lab::host::{TargetPlace, safety};
use lab::plan::Target;
use lab::runner::BuildContext;
use lab_drivers::build::WriteRules;
use nbd::client::Target as Export;

use crate::cli;
use crate::commands::{array, inspect};
use crate::graph;
use crate::graph::builder::{WriteTarget, write_targets};

/// What is ours, and what the user allowed beyond it.
#[derive(Debug)]
pub(super) struct OwnWriteRules<'a> {
    ours: Vec<PathBuf>,
    /// What servers of ours export.
    exports: Vec<Export>,
    serials: &'a [String],
    /// Reads what is on an export.
    content: fn(&str) -> ExportContent,
}

impl<'a> OwnWriteRules<'a> {
    /// Ours is the run's own directory, that of the images of `target`, the devices that we attached and
    /// the exports that we serve.
    pub(super) fn of(target: &Target, context: &BuildContext<'a>) -> Self {
        let mut ours = vec![context.scratch.to_owned()];
        ours.extend(
            context
                .directory_of(target)
                .map(|below| below.join(format!("outboard-{}", target.name))),
        );
        let mut exports = Vec::new();
        for (_, built) in context.built {
            match &built.spec.place {
                // What no command made was there before us.
                _ if built.commands.is_empty() => {}
                TargetPlace::Device(path) => ours.push(path.clone()),
                TargetPlace::Uri(uri) => exports.extend(uri.parse::<Export>()),
                TargetPlace::Directory(_) | TargetPlace::There { .. } => {}
            }
        }
        Self {
            ours,
            exports,
            serials: context.write_serials,
            content: inspect::signature_of,
        }
    }

    fn check_export(&self, export: &Export) -> Result<(), String> {
        if self.exports.contains(export) {
            return Ok(());
        }
        // The same export can be written in several ways.
        let exports = self.serials.iter().flat_map(|text| text.parse::<Export>());
        let typed: Vec<String> = exports.map(|typed| typed.to_string()).collect();
        let uri = export.to_string();
        safety::allow_export(&uri, (self.content)(&uri), &typed)
            .map_err(|refused| refused.to_string())
    }
}

impl WriteRules for OwnWriteRules<'_> {
    fn add_export(&mut self, export: Export) {
        self.exports.push(export);
    }

    /// Whether the disk of `expression` may be written. What was claimed for that is given back at once:
    /// opening it claims it again.
    fn check(&self, expression: &str) -> Result<(), String> {
        let named = graph::resolve(expression).map_err(|error| error.to_string())?;
        let mut files = Vec::new();
        for one in write_targets(&named).map_err(|error| error.to_string())? {
            match one {
                WriteTarget::File(path) => files.push(path),
                WriteTarget::Bucket(uri) => {
                    return Err(format!(
                        "a lab does not write the volume {uri}: it has no serial to name"
                    ));
                }
                WriteTarget::Rbd(image) => {
                    return Err(format!(
                        "a lab does not write the image rbd:{image}: it has no serial to name"
                    ));
                }
                WriteTarget::Export(export) => self.check_export(&export)?,
            }
        }
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let ours: Vec<&Path> = self.ours.iter().map(PathBuf::as_path).collect();
        safety::claim_foreign(&files, &ours, self.serials)
            .map(drop)
            .map_err(|refused| refused.to_string())
    }

    fn check_command(&self, words: &[String]) -> Result<(), String> {
        let arguments = ["outboard"]
            .into_iter()
            .chain(words.iter().map(String::as_str));
        let read = cli::read(arguments.map(Into::into));
        let read = read.map_err(|error| cli::failure(&error).line())?;
        let cli::Command::Array(array::Command::Create(args)) = read.command else {
            return Err(format!("what `{}` writes is not known", words.join(" ")));
        };
        args.disks().try_for_each(|disk| self.check(disk))
    }
}

#[cfg(test)]
mod tests;

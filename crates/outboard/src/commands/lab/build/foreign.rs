//! Disks and files that an expression names and that are not ours: they are written only as far as the
//! lab's rules for raw writes allow, whatever stands between them and the target.

use std::path::{Path, PathBuf};

use lab::host::{Place, safety};
use lab::plan::Target;
use lab::runner::BuildContext;

use crate::graph;

/// What is ours, and what the user allowed beyond it.
#[derive(Debug)]
pub(super) struct Foreign<'a> {
    ours: Vec<PathBuf>,
    serials: &'a [String],
}

impl<'a> Foreign<'a> {
    /// Ours is the run's own directory, that of the images of `target`, and the devices that we attached.
    pub(super) fn of(target: &Target, context: &BuildContext<'a>) -> Self {
        let mut ours = vec![context.scratch.to_owned()];
        ours.extend(
            context
                .directory_of(target)
                .map(|below| below.join(format!("outboard-{}", target.name))),
        );
        ours.extend(
            context
                .built
                .iter()
                .filter_map(|(_, built)| match &built.spec.place {
                    Place::Device(path) if !built.commands.is_empty() => Some(path.clone()),
                    _ => None,
                }),
        );
        Self {
            ours,
            serials: context.write_serials,
        }
    }

    /// Whether the disk of `expression` may be written. What was claimed for that is given back at once:
    /// whoever opens it claims it again.
    pub(super) fn check(&self, expression: &str) -> Result<(), String> {
        let disk = graph::resolve(expression)
            .map_err(|error| error.to_string())?
            .disk;
        let ours: Vec<&Path> = self.ours.iter().map(PathBuf::as_path).collect();
        safety::claim_foreign(&disk.files(), &ours, self.serials)
            .map(drop)
            .map_err(|refused| refused.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_ours_may_be_written_and_a_file_of_somebody_wherever_it_stands_may_not() {
        let (ours, theirs) = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let (image, precious) = (ours.path().join("a.img"), theirs.path().join("precious"));
        for path in [&image, &precious] {
            std::fs::write(path, b"data").expect("a file");
        }
        let foreign = Foreign {
            ours: vec![ours.path().to_owned()],
            serials: &[],
        };
        let (image, precious) = (image.display(), precious.display());
        assert_eq!(
            foreign.check(&format!("linear({image}, memory(1M))")),
            Ok(())
        );
        let refused = foreign.check(&format!("delay(linear({image}, {precious}), read=1ms)"));
        let refused = refused.expect_err("a file with data");
        assert!(refused.contains("precious is not written"), "{refused}");
        // The base of an overlay is never written.
        assert_eq!(
            foreign.check(&format!("overlay({precious}, {image})")),
            Ok(())
        );
    }
}

//! [`Resume`]: where a copy that was interrupted goes on.
//!
//! ```text
//! target            state kept                          continued by
//! path of a file    TARGET.outboard-copy, after 5 s     --resume
//! anything else     FILE, with --resume=FILE            --resume=FILE
//! ```
//!
//! # Invariants
//!
//! * A state is used only where source, target and their sizes are those of the copy that wrote it, and no file of the
//!   source was modified since that copy began. Else the copy is refused, and nothing is changed.
//! * A copy that starts from the beginning removes the state of an earlier one to the same file before it writes.
//!
//! # What it does not do
//!
//! It does not see every change of an export, nor of the target by another program: only samples of what was copied are compared.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use block::{IoError, Node, Operation, Range};
use nodes::copy::{CopyError, CopyOptions, CopyProgress, verify};

use super::state_file::{CopyState, StateError, StateFile};
use crate::failure::Failure;
use crate::graph::{Disk, NamedDisk};

/// What the name of a state has after that of its target.
const SUFFIX: &str = ".outboard-copy";
/// Time between two checkpoints, at least: with `--resume`, and without.
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_UNREQUESTED: Duration = Duration::from_secs(5);

/// Samples of what was copied before, and bytes of each.
const SAMPLES: u64 = 16;
const SAMPLE: u64 = 64 << 10;

/// A copy that can be resumed.
#[derive(Debug)]
pub(super) struct Resume {
    pub(super) file: StateFile,
    /// `--resume` was given.
    is_requested: bool,
    /// The target is the path of a file.
    is_path: bool,
    /// Of an interrupted copy.
    found: Option<CopyState>,
    /// Of this copy, from [`Resume::begin`] on.
    state: Option<CopyState>,
}

impl Resume {
    /// Decides on the state of a copy to `target` and reads it; nothing is changed. `None`: none is kept.
    pub(super) fn find(
        option: Option<&Option<PathBuf>>,
        target: &NamedDisk,
    ) -> Result<Option<Self>, Failure> {
        let text = &target.text;
        let (path, is_path) = match (file_path(&target.disk), option) {
            (Some(path), Some(Some(_))) => {
                let what = format!(
                    "the state of a copy to a file is {}",
                    beside(path).display()
                );
                return Err(Failure::usage(what).next("write --resume alone"));
            }
            (Some(path), _) => (beside(path), true),
            (None, None) => return Ok(None),
            (None, Some(None)) => {
                let what =
                    format!("{text} is no file by its path: nothing says where the state is");
                return Err(Failure::usage(what).next("name a file for it: --resume=FILE"));
            }
            (None, Some(Some(path))) => (path.clone(), false),
        };
        let is_lost =
            |leaf: &&Disk| matches!(leaf, Disk::Memory { .. } | Disk::Null(_) | Disk::Zero(_));
        if option.is_some() && target.disk.leaves().iter().any(is_lost) {
            let what = format!("what is written to {text} ends with this process");
            return Err(Failure::usage(what).next("leave --resume out"));
        }
        let mut resume = Self {
            file: StateFile::new(&path),
            is_requested: option.is_some(),
            is_path,
            found: None,
            state: None,
        };
        if resume.is_requested {
            resume.read()?;
        }
        Ok(Some(resume))
    }

    fn read(&mut self) -> Result<(), Failure> {
        let path = self.file.path().display();
        let cannot = |what: &str, error| Failure::because(format!("cannot {what} {path}"), &error);
        let read = self.file.read().map_err(|error| cannot("read", error))?;
        let Some(state) = read else {
            return self.file.probe().map_err(|error| cannot("write", error));
        };
        let state = state.map_err(|error| {
            let next = match error {
                StateError::Other if !self.is_path => "name another file".to_owned(),
                _ => self.restart(),
            };
            Failure::new(format!("{path} {error}")).next(format!("nothing was changed; {next}"))
        });
        self.found = Some(state?);
        Ok(())
    }

    /// Whether an interrupted copy is continued.
    pub(super) fn is_continued(&self) -> bool {
        self.found.is_some()
    }

    /// The path of the target of the copy that is continued, if it is one.
    pub(super) fn continued_path<'a>(&self, target: &'a NamedDisk) -> Option<&'a Path> {
        file_path(&target.disk).filter(|_| self.is_continued())
    }

    /// What to do about a file that holds something.
    pub(super) fn overwrite_hint(&self) -> String {
        let path = self.file.path();
        if self.is_requested {
            let path = path.display();
            return format!("{path} of an interrupted copy is missing; --force writes over it");
        }
        if self.is_path && path.exists() {
            return "a copy to it was interrupted: --resume continues it, --force writes over it"
                .to_owned();
        }
        super::FORCE.to_owned()
    }

    /// An incremental copy needs a target that is whole.
    pub(super) fn refuse_incomplete(&self, target: &NamedDisk) -> Result<(), Failure> {
        if !self.file.path().exists() {
            return Ok(());
        }
        let text = &target.text;
        let path = self.file.path().display();
        let failure = Failure::new(format!("{text} is incomplete: {path} is there"));
        Err(failure.next("continue that copy with --resume first"))
    }

    /// Compares the open disks with those of the state that was found, or writes a first state where `--resume` was given.
    pub(super) fn begin(
        &mut self,
        ends: (&NamedDisk, &Node),
        onto: (&NamedDisk, &Node),
    ) -> Result<(), Failure> {
        let size = |node: &Node| node.geometry().size;
        let mut state = CopyState {
            source: name(ends),
            source_size: size(ends.1),
            modified: modified(&ends.0.disk),
            target: name(onto),
            target_size: size(onto.1),
            position: 0,
        };
        if self.is_requested && !onto.1.geometry().flush.any() {
            let what = format!(
                "{} cannot be flushed: what is durable there is not known",
                onto.0.text
            );
            return Err(Failure::new(what).next("leave --resume out"));
        }
        if let Some(found) = &self.found {
            if let Some(what) = self.difference(found, &state, (&ends.0.text, &onto.0.text)) {
                let next = format!("nothing was changed; {}", self.restart());
                return Err(Failure::new(what).next(next));
            }
            state.position = found.position;
            state.target_size = found.target_size;
        } else if self.is_requested && state.target_size >= state.source_size {
            let written = self.file.write_first(&state);
            let what = format!("cannot write {}", self.file.path().display());
            written.map_err(|error| Failure::because(what, &error))?;
        }
        self.state = Some(state);
        Ok(())
    }

    /// What differs between the copy that was interrupted and this one.
    fn difference(
        &self,
        found: &CopyState,
        now: &CopyState,
        (source, target): (&str, &str),
    ) -> Option<String> {
        let sizes = |end: &str, had, has| {
            format!("{end} has {has} bytes, and had {had} when its copy was interrupted")
        };
        if found.source != now.source {
            Some(format!(
                "{source} is not the source of the interrupted copy"
            ))
        } else if found.source_size != now.source_size {
            Some(sizes(source, found.source_size, now.source_size))
        } else if found.modified != now.modified {
            Some(format!("{source} was modified after its copy began"))
        } else if found.target != now.target {
            Some(format!(
                "{target} is not the target of the interrupted copy"
            ))
        } else if found.target_size != now.target_size
            // The last step gives a file the size of its source.
            && !(self.is_path && now.target_size == now.source_size)
        {
            Some(sizes(target, found.target_size, now.target_size))
        } else if found.position > now.source_size {
            Some(format!("{} is damaged", self.file.path().display()))
        } else {
            None
        }
    }

    /// Compares samples of what was copied before: a target may have lost it, or be another one of the same name.
    pub(super) async fn compare(
        &self,
        (source, from): (&str, &Node),
        (target, onto): (&str, &Node),
    ) -> Result<(), Failure> {
        let options = CopyOptions {
            ranges: Some(samples(self.position())),
            ..CopyOptions::default()
        };
        let progress = CopyProgress::default();
        match verify(from.clone(), onto.clone(), &options, &progress).await {
            Ok(()) => Ok(()),
            Err(CopyError::Differs { offset }) => {
                let what = format!(
                    "{target} differs from {source} at byte {offset}, which was copied before the interruption"
                );
                let next = format!("nothing was changed; {}", self.restart());
                Err(Failure::new(what).next(next))
            }
            Err(error) => Err(Failure::because(
                format!("cannot compare {target} with {source}"),
                &error,
            )),
        }
    }

    fn restart(&self) -> String {
        let path = self.file.path().display();
        if self.is_path {
            return "to copy from the beginning, leave --resume out and add --force".to_owned();
        }
        format!("to copy from the beginning, remove {path}")
    }

    /// Where this copy begins.
    pub(super) fn position(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.position)
    }

    pub(super) const fn interval(&self) -> Duration {
        if self.is_requested {
            INTERVAL
        } else {
            INTERVAL_UNREQUESTED
        }
    }

    /// Keeps that all below `position` is durable.
    pub(super) async fn record(&self, position: u64) -> Result<(), CopyError> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let file = self.file.clone();
        let state = CopyState {
            position,
            ..state.clone()
        };
        let recorded = engine::blocking(move || file.record(&state)).await;
        let failed = |error| CopyError::Target(IoError::from_os(error, Operation::Flush, None));
        recorded.map_err(failed)
    }

    /// How to continue.
    pub(super) fn hint(&self) -> String {
        let option = match self.is_path {
            true => "--resume".to_owned(),
            false => format!("--resume={}", self.file.path().display()),
        };
        format!("the same command with {option} continues")
    }

    /// The copy has ended, or has not begun: no state is left, unless it is that of an interrupted copy and `keeps_found`.
    pub(super) fn remove(&self, keeps_found: bool) -> Result<(), Failure> {
        if keeps_found && (self.is_continued() || self.file.position().is_none()) {
            return Ok(());
        }
        let what = || format!("cannot remove {}", self.file.path().display());
        let removed = self.file.remove();
        removed.map_err(|error| Failure::because(what(), &error))
    }
}

/// The path, if this is the path of a file, or of nothing yet.
fn file_path(disk: &Disk) -> Option<&Path> {
    let Disk::File { path, .. } = disk else {
        return None;
    };
    let is_other = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
    Some(path.as_path()).filter(|_| !is_other)
}

/// Samples of what lies below `position`: where it begins, where it ends, and between.
fn samples(position: u64) -> Vec<Range> {
    let last = position.saturating_sub(SAMPLE);
    let mut starts: Vec<u64> = (0..=SAMPLES).map(|n| last / SAMPLES * n).collect();
    starts.push(last);
    let mut end = 0;
    let ranges = starts.into_iter().map(|start| {
        let start = start.max(end);
        end = (start + SAMPLE).min(position).max(start);
        Range::new(start, end - start)
    });
    ranges.filter(|range| !range.is_empty()).collect()
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

fn name((named, node): (&NamedDisk, &Node)) -> String {
    let identity = node.identity();
    identity.map_or_else(|| named.text.clone(), |identity| identity.to_string())
}

/// When the regular files of a disk were modified.
fn modified(disk: &Disk) -> String {
    let found = disk.files().into_iter().filter_map(|path| {
        let found = std::fs::metadata(path)
            .ok()
            .filter(std::fs::Metadata::is_file)?;
        Some(format!("{}.{:09}", found.mtime(), found.mtime_nsec()))
    });
    found.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{SAMPLE, samples};

    #[test]
    fn samples_rise_without_overlap_and_have_both_ends() {
        assert!(samples(0).is_empty());
        for position in [
            1,
            SAMPLE,
            SAMPLE + 1,
            20 * SAMPLE + 512,
            1 << 40,
            u64::MAX >> 1,
        ] {
            let samples = samples(position);
            assert_eq!(samples[0].offset, 0);
            assert_eq!(samples.last().unwrap().end(), position);
            for pair in samples.windows(2) {
                assert!(pair[0].end() <= pair[1].offset, "{pair:?}");
            }
            assert!(samples.iter().map(|range| range.len).sum::<u64>() <= 18 * SAMPLE);
        }
    }
}

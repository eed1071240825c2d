//! tar: an archive made of a real source tree, both on the target.
//!
//! The paper's measure: bytes read and written together over the time it took. Here the archive's
//! last bytes are on the disk before the clock stops (`sync`), and the tree was written and dropped
//! from the cache before. GNU tar reads no file when it writes to `/dev/null`; it never does here.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::remove_folder;
use super::result::{ToolFigure, ToolResult};
use super::tree::{self, Summary};
use super::{
    Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError, ToolKind, Writes,
};
use crate::plan::{bounds, size};
use crate::units::{Bytes, MIB, Nanos};

/// What has to be installed.
pub const PROGRAM: Program = Program {
    name: "tar",
    package: "tar",
    version_args: &["--version"],
};
/// The tree on the target.
const TREE: &str = "tree";
/// What it is made of.
const SUMMARY: &str = "tree.json";
/// The archive.
const ARCHIVE: &str = "archive.tar";
/// The least worth an archive.
pub(crate) const BYTES_MIN: Bytes = Bytes(MIB);

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TarOptions {
    /// The tree; one that most machines have when there is none.
    #[serde(default)]
    pub tree: Option<PathBuf>,
    /// Files beyond that are left out.
    #[serde(with = "size")]
    pub bytes_max: Bytes,
}

impl TarOptions {
    /// The tree with what tar writes around it: a header and the rest of a block for each file and each
    /// folder, and the rest of the last record.
    pub(super) const fn archive_max(&self) -> Bytes {
        const AROUND: u64 = 2 * 1024;
        let around = tree::FILES_MAX as u64 * AROUND + 20 * 512;
        Bytes(self.bytes_max.0.saturating_add(around))
    }
}

/// The commands: the archive, and that it is on the disk.
#[must_use]
pub fn commands(installed: &Installed, directory: &Path) -> [Invocation; 2] {
    let archive = directory.join(ARCHIVE);
    let make = ["--create".into(), "--file".into(), archive.clone().into()]
        .into_iter()
        .chain(["--directory".into(), directory.as_os_str().to_owned()])
        .chain([TREE.into()]);
    [
        Invocation::new(&installed.program, make),
        Invocation::new(Path::new("sync"), [archive]),
    ]
}

/// The figures: bytes read and written over time, and files over time.
#[must_use]
pub fn figures(tree: &Summary, archive: Bytes, elapsed: Nanos) -> Vec<ToolFigure> {
    let seconds = elapsed.seconds().max(f64::MIN_POSITIVE);
    let moved = (tree.bytes.0 + archive.0) as f64;
    vec![
        ToolFigure::rate("read and written", moved / seconds),
        ToolFigure::per_second("files", tree.files as f64 / seconds),
    ]
}

fn copied(summary: &Summary) -> String {
    format!(
        "cp --recursive {} {TREE} # {summary}",
        summary.source.display()
    )
}

/// What the tree on the target is made of; another test's is none.
fn summary(options: &TarOptions, place: &ToolDirs<'_>) -> Result<Summary, ToolError> {
    let not_there = |error| ToolError::system("read what the tree is made of", error);
    let text = fs::read(place.directory.join(SUMMARY)).map_err(not_there)?;
    let read = serde_json::from_slice::<(TarOptions, Summary)>(&text);
    let (made_for, summary) = read.map_err(|error| not_there(error.into()))?;
    match made_for == *options {
        true => Ok(summary),
        false => Err(not_there(std::io::ErrorKind::NotFound.into())),
    }
}

impl ToolKind for TarOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn check(&self) -> Result<(), String> {
        bounds::at_least("bytes_max", self.bytes_max, BYTES_MIN)?;
        match &self.tree {
            Some(tree) if !tree.is_absolute() => Err(format!(
                "the tree {} must be a path from the root",
                tree.display()
            )),
            _ => Ok(()),
        }
    }

    /// Read once and written once at 50 MB/s.
    fn usual(&self) -> Nanos {
        const RATE: u64 = 50_000_000;
        Nanos::from_ms(self.bytes_max.0.saturating_mul(2) / (RATE / 1000) + 1000)
    }

    fn at_once(&self) -> Option<u32> {
        Some(1)
    }

    fn writes(&self) -> Writes {
        Writes::AtMost(self.archive_max())
    }

    fn laid_out(&self) -> Bytes {
        self.bytes_max
    }

    /// The tree and both commands, as far as they are known before.
    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        let source = self.tree.clone().or_else(tree::known);
        let source = source.unwrap_or_else(|| "TREE".into());
        let target = place.directory.join(TREE);
        let copy: [OsString; 3] = ["--recursive".into(), source.into(), target.into()];
        let copy = Invocation::new(Path::new("cp"), copy);
        let commands = commands(installed, place.directory);
        let all = std::iter::once(&copy).chain(&commands);
        all.map(Invocation::shown).collect()
    }

    /// Copies the tree onto the target if it is not there yet; see [`ToolKind::prepare`].
    fn prepare(&self, place: &ToolDirs<'_>, tick: Tick<'_>) -> Result<Option<String>, ToolError> {
        if let Ok(summary) = summary(self, place) {
            return Ok(Some(copied(&summary)));
        }
        let none =
            || ToolError::NoSubject("there is no source tree here; name one in the plan".into());
        let source = self.tree.clone().or_else(tree::known).ok_or_else(none)?;
        let target = place.directory.join(TREE);
        // Left by a copy that was stopped.
        remove_folder(&target)?;
        let summary = tree::copy(&source, &target, self.bytes_max, tick)?;
        let text = serde_json::to_string(&(self, &summary))
            .map_err(|error| ToolError::system("describe the tree", error.into()))?;
        fs::write(place.directory.join(SUMMARY), text)
            .map_err(|error| ToolError::system("describe the tree", error))?;
        Ok(Some(copied(&summary)))
    }

    fn run(&self, mut start: Start<'_>) -> Result<Ran, ToolError> {
        let tree = summary(self, start.place)?;
        let archive = start.place.directory.join(ARCHIVE);
        let commands = commands(start.installed, start.place.directory);
        let ran = start.run_all(&commands);
        let size = fs::metadata(&archive).map(|found| Bytes(found.len()));
        let removed = match fs::remove_file(&archive) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let (elapsed, output) = ran?;
        removed.map_err(|error| ToolError::system("remove the archive", error))?;
        let size = size.map_err(|error| ToolError::system("look at the archive", error))?;
        if size < tree.bytes {
            let reason = format!("the archive has {size}, the tree {}", tree.bytes);
            return Err(PROGRAM.failed(reason));
        }
        Ok(Ran {
            result: ToolResult {
                bytes: Some(Bytes(tree.bytes.0 + size.0)),
                subject: Some(tree.to_string()),
                ..start.result(figures(&tree, size, elapsed), elapsed)
            },
            output,
            commands: commands.each_ref().map(Invocation::shown).into(),
            findings: Vec::new(),
        })
    }
}

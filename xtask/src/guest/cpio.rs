//! An archive the kernel unpacks as its first filesystem: cpio in the "newc" form.
//!
//! Archives may follow each other in one file, so a base that is kept can be extended by what changes.
//!
//! ```text
//! "070701" | 13 fields of 8 hexadecimal digits | name, NUL | pad to 4 | data | pad to 4
//! ```
//!
//! Source: the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`. Owners are always
//! root and times always zero, so the same content gives the same bytes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// File type bits and rights of what is put in.
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;

/// An archive being put together.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<PathBuf>,
    inode: u32,
}

impl Archive {
    /// Adds a plain file and the folders above it.
    pub(super) fn file(&mut self, path: &str, data: &[u8]) -> Result<()> {
        self.add(path, FILE, data)
    }

    /// Adds a file that can be run.
    pub(super) fn program(&mut self, path: &str, data: &[u8]) -> Result<()> {
        self.add(path, PROGRAM, data)
    }

    /// Adds a file of this machine under its own path.
    pub(super) fn copy(&mut self, path: &Path) -> Result<()> {
        let data =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.program(&path.to_string_lossy(), &data)
    }

    /// The finished archive, padded so that another one can follow.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.entry("TRAILER!!!", 0, &[])?;
        let padded = self.bytes.len().next_multiple_of(512);
        self.bytes.resize(padded, 0);
        Ok(self.bytes)
    }

    fn add(&mut self, path: &str, mode: u32, data: &[u8]) -> Result<()> {
        let path = path.trim_start_matches('/');
        let above: Vec<PathBuf> = Path::new(path)
            .ancestors()
            .skip(1)
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(Path::to_path_buf)
            .collect();
        for folder in above.into_iter().rev() {
            if !self.folders.contains(&folder) {
                self.entry(&folder.to_string_lossy(), FOLDER, &[])?;
                self.folders.insert(folder);
            }
        }
        self.entry(path, mode, data)
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.inode += 1;
        let links = 1;
        let data_len = u32::try_from(data.len()).with_context(|| format!("{name} is too big"))?;
        let name_len = u32::try_from(name.len() + 1)?;
        self.bytes.extend(b"070701");
        let fields = [
            self.inode, mode, 0, 0, links, 0, data_len, 0, 0, 0, 0, name_len, 0,
        ];
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

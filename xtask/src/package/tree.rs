//! The files of one package as a folder: what dpkg-deb packs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Modes of what is installed.
pub(super) const PROGRAM: u32 = 0o755;
pub(super) const DATA: u32 = 0o644;

/// A package to be.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) name: &'static str,
    pub(super) architecture: String,
    pub(super) root: PathBuf,
    /// Configuration files, which an upgrade keeps.
    conffiles: Vec<String>,
}

impl Tree {
    /// An empty one in a folder below `work`.
    pub(super) fn new(name: &'static str, architecture: &str, work: &Path) -> Result<Self> {
        let tree = Self {
            name,
            architecture: architecture.to_owned(),
            root: work.join(name),
            conffiles: Vec::new(),
        };
        tree.folder("DEBIAN")?;
        Ok(tree)
    }

    /// A directory and those above it.
    pub(super) fn folder(&self, path: &str) -> Result<PathBuf> {
        let mut folder = self.root.clone();
        make(&folder)?;
        for name in path.split('/') {
            folder.push(name);
            make(&folder)?;
        }
        Ok(folder)
    }

    /// A file with these bytes.
    pub(super) fn file(&self, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let (folder, name) = path.rsplit_once('/').context("a file has a folder")?;
        let file = self.folder(folder)?.join(name);
        fs::write(&file, bytes)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// A file of the repository.
    pub(super) fn copy(&self, from: &str, to: &str, mode: u32) -> Result<()> {
        let from = shell::root().join(from);
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        self.file(to, &bytes, mode)
    }

    /// A file that users edit.
    pub(super) fn configuration(&mut self, from: &str, to: &str) -> Result<()> {
        self.conffiles.push(format!("/{to}"));
        self.copy(from, to, DATA)
    }

    /// A file as Debian compresses documentation.
    pub(super) fn compressed(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.file(path, bytes, DATA)?;
        let mut gzip = Command::new("gzip");
        // Without a name and a time in the header.
        shell::output(gzip.args(["-9", "-n"]).arg(self.root.join(path))).map(drop)
    }

    /// A script of the package's maintainer: postinst and the others.
    pub(super) fn script(&self, from: &str, name: &str) -> Result<()> {
        self.copy(from, &format!("DEBIAN/{name}"), PROGRAM)
    }

    /// The package's description, its checksums and the list of its configuration files.
    pub(super) fn describe(&self, control: &str) -> Result<()> {
        self.file("DEBIAN/control", control.as_bytes(), DATA)?;
        if !self.conffiles.is_empty() {
            let list = self.conffiles.join("\n") + "\n";
            self.file("DEBIAN/conffiles", list.as_bytes(), DATA)?;
        }
        let mut sum = Command::new("sh");
        sum.arg("-c")
            .arg("find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 -r md5sum")
            .current_dir(&self.root);
        let sums = shell::output(&mut sum)?;
        self.file("DEBIAN/md5sums", sums.as_bytes(), DATA)
    }

    /// What it takes when installed, KiB, as dpkg-gencontrol(1) has it.
    pub(super) fn installed_kib(&self) -> Result<u64> {
        installed_kib(&self.root)
    }
}

/// Each file is rounded up, and all else counts 1 KiB: the sizes of directories depend on the filesystem.
fn installed_kib(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        sum += match kind.is_file() {
            true => entry.metadata()?.len().div_ceil(1024),
            false => 1,
        };
        if kind.is_dir() && entry.file_name() != "DEBIAN" {
            sum += installed_kib(&entry.path())?;
        }
    }
    Ok(sum)
}

/// Makes a directory that everybody may enter, whatever the umask.
fn make(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(PROGRAM))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installed_size_is_that_of_the_files_on_any_filesystem() {
        let work = tempfile::tempdir().unwrap();
        let tree = Tree::new("some", "all", work.path()).unwrap();
        tree.file("usr/bin/a", &[0; 1025], PROGRAM).unwrap();
        // A directory with many names takes blocks of its own on most filesystems.
        for number in 0..300 {
            let path = format!("usr/share/a-long-name-of-a-file-without-a-byte-{number}");
            tree.file(&path, b"", DATA).unwrap();
        }
        std::os::unix::fs::symlink("a", tree.root.join("usr/bin/b")).unwrap();
        // 2 of the file, usr, bin, share and the link; and the folder DEBIAN, but not what is in it.
        tree.file("DEBIAN/control", &[0; 5000], DATA).unwrap();
        assert_eq!(tree.installed_kib().unwrap(), 2 + 4 + 1);
    }
}

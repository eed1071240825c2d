//! Where the parts of a disk of our own are, and the commands that make and pull them by hand. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Invocation, ToolDirs};
use crate::units::Bytes;

/// A folder with images, drives over them, and a place to mount them.
#[derive(Debug, Clone)]
pub(super) struct RigLayout(PathBuf);

impl RigLayout {
    /// The one in `place`.
    pub(super) fn of(place: &ToolDirs<'_>) -> Self {
        Self(place.directory.join("rig"))
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// Where a file of this name is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Where it is mounted.
    pub(super) fn mounted(&self) -> PathBuf {
        self.path("mounted")
    }

    /// The file that is there while a drive is pulled.
    pub(super) fn switch(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.pulled"))
    }

    /// The expression of a drive that is pulled as long as its switch is there.
    pub(super) fn drive(&self, name: &str) -> String {
        let [image, switch] =
            [self.path(name), self.switch(name)].map(|path| quoted(&path.to_string_lossy()));
        format!("fault({image}, pulled-while={switch})")
    }

    /// Makes an image.
    pub(super) fn image_shown(&self, name: &str, size: Bytes) -> String {
        let size = size.0.to_string().into();
        shown(
            "fallocate",
            ["--length".into(), size, self.path(name).into()],
        )
    }

    /// The words that attach a disk with a new filesystem.
    pub(super) fn attach(&self, disk: &str) -> [OsString; 6] {
        let at = self.mounted();
        [
            "attach".into(),
            disk.into(),
            "--mount".into(),
            at.into(),
            "--mkfs".into(),
            "ext4".into(),
        ]
    }

    /// The words that serve a disk, only to be read.
    pub(super) fn serve(&self, disk: &str) -> [OsString; 8] {
        [
            "serve".into(),
            format!("data={disk}").into(),
            "--listen".into(),
            "127.0.0.1:0".into(),
            "--port-file".into(),
            self.path("port").into(),
            "--read-only".into(),
            "--exit-with-parent".into(),
        ]
    }

    /// Pulls a drive.
    pub(super) fn pull_shown(&self, name: &str) -> String {
        shown("touch", [self.switch(name).into()])
    }

    /// Plugs it in again.
    pub(super) fn plug_shown(&self, name: &str) -> String {
        shown("rm", [self.switch(name).into()])
    }

    /// Detaches what was attached.
    pub(super) fn detach_shown(&self) -> String {
        shown("outboard", ["detach".into(), self.mounted().into()])
    }
}

/// A command as it can be pasted into a shell.
pub(super) fn shown(program: &str, args: impl IntoIterator<Item = OsString>) -> String {
    Invocation::new(Path::new(program), args).shown()
}

/// A word of an expression: bare where it can be, else in quotes, where a quote is written twice.
#[must_use]
pub fn quoted(word: &str) -> String {
    let special = |c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '\'' | '"');
    match word.contains(special) {
        true => format!("'{}'", word.replace('\'', "''")),
        false => word.to_owned(),
    }
}

//! What most tests begin with: an image in a folder of its own, and a server on it.

use std::ops::Deref;
use std::path::Path;

use crate::image::Folder;
use crate::server::Server;

/// An image that is served, alone in its folder. It is its path.
#[derive(Debug)]
pub struct Image {
    path: String,
    folder: Folder,
}

/// Without data, `size` bytes.
///
/// # Panics
/// If it cannot be made or served.
#[must_use]
#[track_caller]
pub fn empty(size: u64) -> (Image, Server) {
    empty_with(&[], size)
}

/// The same, by a server that is also given `options`.
///
/// # Panics
/// If it cannot be made or served.
#[must_use]
#[track_caller]
pub fn empty_with(options: &[&str], size: u64) -> (Image, Server) {
    serve(options, |folder| folder.empty("a.img", size))
}

/// `size` bytes of [`pattern`](crate::image::pattern).
///
/// # Panics
/// If it cannot be made or served.
#[must_use]
#[track_caller]
pub fn filled(size: u64, seed: u64) -> (Image, Server) {
    filled_with(&[], size, seed)
}

/// The same, by a server that is also given `options`.
///
/// # Panics
/// If it cannot be made or served.
#[must_use]
#[track_caller]
pub fn filled_with(options: &[&str], size: u64, seed: u64) -> (Image, Server) {
    serve(options, |folder| folder.filled("a.img", size, seed))
}

#[track_caller]
fn serve(options: &[&str], make: impl FnOnce(&Folder) -> String) -> (Image, Server) {
    let folder = Folder::new();
    let path = make(&folder);
    let server = Server::start(&[options, &[&path]].concat());
    (Image { path, folder }, server)
}

impl Image {
    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Deref for Image {
    type Target = str;

    fn deref(&self) -> &str {
        &self.path
    }
}

impl AsRef<Path> for Image {
    fn as_ref(&self) -> &Path {
        self.path.as_ref()
    }
}

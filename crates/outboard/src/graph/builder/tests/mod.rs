//! Tests of opening disks: [`arrays`], [`claims`] of bytes without any file, [`opening`] and [`tables`] with them.

mod arrays;
mod claims;
mod member_reopen;
mod open;
mod tables;

use std::os::unix::fs::FileExt;
use std::path::Path;

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::{gather, single};

use super::{BuildError, Builder, BuiltDisk};
use crate::graph::resolve;

const MIB: u64 = 1 << 20;

/// Runs `test` on an engine, with a folder.
fn with_folder(test: impl AsyncFnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = engine::Config {
        backend: engine::BackendChoice::Threads,
        cores: 1,
    };
    engine::run(&config, |_| test(folder.path())).expect("the engine starts");
}

/// A file of `size` bytes, each of its pages of 4 KiB filled with the page's number and `mark`.
fn image(path: &Path, size: u64, mark: u8) {
    let file = std::fs::File::create(path).expect("a new file");
    file.set_len(size).expect("a size");
    for page in 0..size / 4096 {
        let mut bytes = [mark; 4096];
        bytes[..8].copy_from_slice(&page.to_le_bytes());
        file.write_all_at(&bytes, page * 4096).expect("data");
    }
}

/// `text` with the folder in place of `@`.
fn in_folder(folder: &Path, text: &str) -> String {
    text.replace('@', &format!("{}/", folder.display()))
}

async fn open(builder: &mut Builder, folder: &Path, text: &str) -> Result<BuiltDisk, BuildError> {
    let text = in_folder(folder, text);
    let named = resolve(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    builder.tree(&named).await
}

/// Opens it with a builder of its own.
async fn opened(folder: &Path, text: &str) -> BuiltDisk {
    let built = open(&mut Builder::new(false), folder, text).await;
    built.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Why it is not opened by a builder of its own.
async fn refused(folder: &Path, text: &str) -> BuildError {
    let built = open(&mut Builder::new(false), folder, text).await;
    built.map_or_else(
        |error| error,
        |built| panic!("{text} was opened: {built:?}"),
    )
}

/// What an error marks.
fn marked(error: &BuildError) -> Vec<String> {
    let marks = error.marks().into_iter();
    let pieces = marks.map(|mark| mark.text[mark.span.start..mark.span.end].to_owned());
    pieces.collect()
}

async fn read(node: &Node, offset: u64, len: u64) -> Vec<u8> {
    let data = node.read(Range::new(offset, len)).await.expect("a read");
    gather(&data)
}

async fn write(node: &dyn BlockDevice, offset: u64, fill: u8) {
    let range = Range::new(offset, 4096);
    let data = single(vec![fill; 4096]);
    let written = node.write(range, data, WriteFlags::empty()).await;
    written.expect("a write");
}

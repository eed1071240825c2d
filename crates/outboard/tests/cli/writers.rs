//! `serve --writers` and `--single-writer`: what is refused, and what is recorded next to the image.

use std::path::Path;

use super::{Server, answer, failure, outboard};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn image(folder: &Path, name: &str) {
    let file = std::fs::File::create(folder.join(name)).and_then(|file| file.set_len(1 << 20));
    file.expect("an image");
}

#[test]
fn options_that_contradict_each_other_are_a_mistake_of_the_command_line() {
    let folder = folder();
    for (options, said) in [
        (&["a.img", "--writers", "two"][..], "1 or many"),
        (
            &["a.img", "--single-writer", "--writers", "many"],
            "contradict",
        ),
        (&["a.img", "--single-writer", "--read-only"], "read-only"),
        (&["memory(1M)", "--single-writer"], "--writer-file"),
        (&["a.img", "--writer-file", "w"], "--single-writer"),
        (
            &["a.img", "b=b.img", "--single-writer", "--writer-file", "w"],
            "several disks",
        ),
    ] {
        let arguments = [&["serve", "--check"][..], options].concat();
        let (status, told) = failure(folder.path(), &arguments);
        assert_eq!(status, Some(2), "{options:?}: {told}");
        assert!(told.contains(said), "{options:?}: {told}");
    }
}

/// A server of `a.img` with a single writer, and its URI.
fn single_writer(folder: &Path) -> (Server, String) {
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "a.img",
        "--single-writer",
    ];
    let (server, line) = Server::start(outboard(folder, &arguments));
    let uri = line.split_whitespace().next().expect("a URI");
    (server, uri.to_owned())
}

#[test]
fn each_new_writer_is_recorded_next_to_the_image_and_readers_are_not() {
    let folder = folder();
    for name in ["a.img", "source.img"] {
        image(folder.path(), name);
    }
    let (_server, uri) = single_writer(folder.path());
    let record = folder.path().join("a.img.writer");
    answer(folder.path(), &["copy", &uri, "back.img"]);
    assert!(!record.exists());
    for generation in [1, 2] {
        answer(folder.path(), &["copy", "source.img", &uri]);
        let text = std::fs::read_to_string(&record).expect("a record");
        assert!(
            text.starts_with(&format!(
                "outboard writer 1\ngeneration={generation}\nwriter="
            )),
            "{text}"
        );
    }
}

#[test]
fn a_damaged_record_refuses_writers_by_its_path_and_no_readers() {
    let folder = folder();
    for name in ["a.img", "source.img"] {
        image(folder.path(), name);
    }
    std::fs::write(folder.path().join("a.img.writer"), "junk").expect("a file");
    let (_server, uri) = single_writer(folder.path());
    let (status, told) = failure(folder.path(), &["copy", "source.img", &uri]);
    assert_eq!(status, Some(1));
    assert!(told.contains("a.img.writer: it is damaged"), "{told}");
    answer(folder.path(), &["copy", &uri, "back.img"]);
}

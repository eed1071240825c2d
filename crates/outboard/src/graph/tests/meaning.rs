//! What names and words mean, and which are refused.

use std::path::PathBuf;

use super::problem_of;
use crate::graph::error::Problem;
use crate::graph::resolve::Disk;
use crate::graph::{ByteSize, resolve};

fn disk(text: &str) -> Disk {
    match resolve(text) {
        Ok(named) => named.disk,
        Err(error) => panic!("{text}: {error}"),
    }
}

#[test]
fn a_path_is_a_file_that_is_written_through_the_page_cache() {
    for text in ["/srv/a.img", "file(/srv/a.img)", "'/srv/a.img'"] {
        let Disk::File {
            path,
            direct,
            read_only,
            ..
        } = disk(text)
        else {
            panic!("{text} is no file");
        };
        assert_eq!(path, PathBuf::from("/srv/a.img"));
        assert!(!direct && !read_only, "{text}");
    }
}

#[test]
fn a_file_takes_its_switches() {
    let text = "file('my disk.img', direct=true, read-only=true)";
    let Disk::File {
        path,
        direct,
        read_only,
        ..
    } = disk(text)
    else {
        panic!("no file");
    };
    assert_eq!(path, PathBuf::from("my disk.img"));
    assert!(direct && read_only);
    assert!(matches!(
        disk("file(a, direct=false)"),
        Disk::File {
            direct: false,
            read_only: false,
            ..
        }
    ));
}

#[test]
fn memory_and_null_take_a_size() {
    let size = ByteSize(1 << 30);
    assert!(matches!(disk("memory(1G)"), Disk::Memory(s) if s == size));
    assert!(matches!(disk("null(1024MiB)"), Disk::Null(s) if s == size));
}

#[test]
fn blocks_stand_on_another_disk() {
    let Disk::Blocks { disk: below, size } = disk("blocks(blocks(/srv/a, size=4K), size=512)")
    else {
        panic!("no blocks");
    };
    assert_eq!(size, 512);
    assert!(matches!(*below, Disk::Blocks { size: 4096, .. }));
    assert!(matches!(below.leaf(), Disk::File { .. }));
    assert!(below.can_be_read_only());
    assert!(!disk("blocks(memory(1M), size=512)").can_be_read_only());
}

#[test]
fn a_uri_is_a_remote_disk_and_a_path_with_a_colon_is_not() {
    let Disk::Remote {
        target,
        connections: None,
        read_only: false,
        span,
    } = disk("m=nbd://h/e")
    else {
        panic!("no remote disk");
    };
    assert_eq!(
        (target.to_string().as_str(), span.start, span.end),
        ("nbd://h/e", 2, 11)
    );
    assert!(matches!(
        disk("NBD+UNIX:///e?socket=/s"),
        Disk::Remote { .. }
    ));
    assert!(matches!(disk("/srv/odd://name"), Disk::File { .. }));
    assert!(matches!(disk("srv/odd://name"), Disk::File { .. }));
}

#[test]
fn a_remote_disk_takes_its_connections_and_whether_it_is_written() {
    let Disk::Remote {
        target,
        connections: Some(8),
        read_only: true,
        span,
    } = disk("remote(nbd://h/e, connections=8, read-only=true)")
    else {
        panic!("no remote disk");
    };
    assert_eq!(target.to_string(), "nbd://h/e");
    assert_eq!((span.start, span.end), (7, 16));
    assert!(disk("remote(nbd://h/e)").can_be_read_only());
}

#[test]
fn what_a_later_version_brings_is_named_at_its_place() {
    for name in [
        "partition",
        "linear",
        "stripe",
        "array",
        "volume",
        "dm",
        "overlay",
        "delay",
        "fault",
        "throttle",
        "zero",
        "error",
    ] {
        let (problem, place) = problem_of(&format!("x={name}(a, b)"));
        assert_eq!(
            problem,
            Problem::NotBuilt {
                name: name.to_owned()
            }
        );
        assert_eq!(place, name);
    }
    let (problem, place) = problem_of("nbds+vsock://2/media");
    assert!(
        problem
            .to_string()
            .starts_with("nbds+vsock:// is not built yet in this version")
    );
    assert_eq!(place, "nbds+vsock://2/media");
}

#[test]
fn an_unknown_name_is_answered_with_what_exists() {
    let (problem, place) = problem_of("memroy(1G)");
    assert_eq!(place, "memroy");
    let text = problem.to_string();
    assert!(text.contains("did you mean memory?"), "{text}");
    assert!(
        text.contains(
            "null(SIZE), remote(URI, connections=4, read-only=true), blocks(DISK, size=512) and URIs (nbd://, nbd+unix://, nbds://, nbds+unix://)"
        ),
        "{text}"
    );
    let (problem, _) = problem_of("xyz(1)");
    assert!(!problem.to_string().contains("did you mean"), "{problem}");
}

#[test]
fn wrong_arguments_are_refused_at_their_place() {
    let cases = [
        ("memory()", "memory", "SIZE is missing; write memory(SIZE)"),
        (
            "memory(1G, 2G)",
            "2G",
            "one argument too many; write memory(SIZE)",
        ),
        ("memory(huge)", "huge", "expected a size"),
        ("nbd:///x", "nbd:///x", "nbd:// needs a host"),
        ("m=nbd://h:99999/x", "nbd://h:99999/x", "is not a port"),
        (
            "http://nas.lan/media",
            "http://nas.lan/media",
            "remote disks are nbd://, nbd+unix://",
        ),
        ("memory(1000)", "1000", "a multiple of 512 bytes"),
        ("null(0)", "0", "a multiple of 512 bytes"),
        ("memory(12Q)", "12Q", "`Q` is not a unit"),
        (
            "memory(memory(1G))",
            "memory(1G)",
            "expected SIZE, found a disk",
        ),
        ("file()", "file", "PATH is missing"),
        ("file(a, direkt=true)", "direkt", "did you mean direct?"),
        ("file(a, direct=yes)", "yes", "expected true or false"),
        ("file(a, direct=true, direct=true)", "direct", "given twice"),
        ("memory(1G, size=1G)", "size", "there is no argument `size`"),
        (
            "remote(/srv/a)",
            "/srv/a",
            "expected the URI of a remote disk",
        ),
        (
            "remote(nbd://h, connections=0)",
            "0",
            "a number from 1 to 16",
        ),
        (
            "remote(nbd://h, connections=17)",
            "17",
            "a number from 1 to 16",
        ),
        ("remote(nbd://h, connections=all)", "all", "found `all`"),
        ("blocks(size=512)", "blocks", "DISK is missing"),
        ("blocks(a)", "blocks", "size is missing"),
        ("blocks(a, size=600)", "600", "600 is none"),
        ("blocks(a, size=128K)", "128K", "131072 is none"),
        (
            "blocks(memory(1), size=512)",
            "1",
            "a multiple of 512 bytes",
        ),
    ];
    for (text, place, message) in cases {
        let (problem, marked) = problem_of(text);
        assert_eq!(marked, place, "{text}");
        assert!(problem.to_string().contains(message), "{text}: {problem}");
    }
}

#[test]
fn the_name_of_the_export_is_kept() {
    let named = resolve("media=memory(1M)").expect("a good expression");
    assert_eq!(named.name.as_deref(), Some("media"));
    assert_eq!(resolve("memory(1M)").expect("a good expression").name, None);
}

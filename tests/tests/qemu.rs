//! QEMU's tools as clients of our server.

use outboard_tests::image::{MIB, assert_same, bytes_at};
use outboard_tests::said::program;
use outboard_tests::server::{Server, WAYS};
use outboard_tests::server_fixture;
use testkit::requires;

fn can_run() -> bool {
    requires::all(&[requires::command("qemu-img"), requires::command("qemu-io")])
}

fn qemu_io(uri: &str, commands: &[&str]) -> String {
    let mut args = vec!["--format=raw"];
    for command in commands {
        args.extend(["-c", command]);
    }
    args.push(uri);
    let printed = program("qemu-io", &args).ok();
    // qemu-io succeeds even if a command of it fails.
    for bad in ["failed", "mismatch", "verification", "error"] {
        assert!(!printed.contains(bad), "{printed}");
    }
    printed
}

#[test]
fn qemu_img_sees_the_size() {
    if !can_run() {
        return;
    }
    let server = Server::start(&["memory(5M)"]);
    for by in WAYS {
        let uri = server.uri_by(by, "");
        let printed = program("qemu-img", &["info", "--output=json", &uri]).ok();
        let info: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(info["virtual-size"], 5 * MIB);
    }
}

#[test]
fn qemu_img_converts_to_us_and_back_and_finds_no_difference() {
    if !can_run() {
        return;
    }
    let (image, server) = server_fixture::empty(9 * MIB);
    let source = image.folder().filled("source", 9 * MIB, 5);
    let back = image.folder().at("back");
    let uri = server.uri("");
    program("qemu-img", &["convert", "-n", "-O", "raw", &source, &uri]).ok();
    let same = program(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", &source, &uri],
    )
    .ok();
    assert!(same.contains("identical"), "{same}");
    program("qemu-img", &["convert", "-O", "raw", &uri, &back]).ok();
    drop(server);
    assert_same(&source, &back);
    assert_same(&source, &image);
}

#[test]
fn qemu_io_reads_what_it_wrote_discarded_and_zeroed() {
    if !can_run() {
        return;
    }
    let (image, server) = server_fixture::filled(8 * MIB, 2);
    for by in WAYS {
        qemu_io(
            &server.uri_by(by, ""),
            &[
                "write -P 0xaa 512 1536",
                "read -P 0xaa 512 1536",
                "write -f -P 0xbb 1M 2M",
                "write -z 2M 512k",
                "read -P 0 2M 512k",
                "read -P 0xbb 1M 1M",
                "write -z -u 4M 1M",
                "read -P 0 4M 1M",
                "discard 6M 1M",
                "aio_write -P 0xcc 7M 64k",
                "aio_write -P 0xcd 7232k 64k",
                "aio_flush",
                "flush",
                "read -P 0xcc 7M 64k",
                "read -P 0xcd 7232k 64k",
            ],
        );
    }
    drop(server);
    assert_eq!(bytes_at(&image, MIB, 512), vec![0xbb; 512]);
    assert_eq!(bytes_at(&image, 2 * MIB, 4096), vec![0; 4096]);
}

#[test]
fn qemu_io_learns_that_an_unwritable_export_is_read_only() {
    if !can_run() {
        return;
    }
    let (_image, server) = server_fixture::empty_with(&["--read-only"], MIB);
    let said = program(
        "qemu-io",
        &["--format=raw", "-c", "write 0 512", &server.uri("")],
    );
    assert_ne!(said.code, Some(0), "{said:?}");
}

//! fio, nbdkit and nbd-client as clients of our server: many requests at once, verified.

use std::process::Command;

use outboard_tests::image::{Folder, MIB, assert_same};
use outboard_tests::said::{program, run};
use outboard_tests::server::{Server, WAYS};
use outboard_tests::server_fixture;
use testkit::requires;

/// fio's nbd engine writes with checksums and reads everything back.
fn fio_verifies(uri: &str, block_size: &str, jobs: u32) {
    let mut fio = Command::new("fio");
    fio.args(["--name=verify", "--ioengine=nbd", "--iodepth=32"])
        .args([
            "--rw=randwrite",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--do_verify=1",
            "--verify_state_save=0",
        ])
        .args(["--size=16m", "--offset_increment=16m", "--fsync=64"])
        .arg(format!("--bs={block_size}"))
        .arg(format!("--numjobs={jobs}"))
        .arg(format!("--uri={uri}"));
    let printed = run(&mut fio).ok();
    assert!(
        printed.contains("READ:"),
        "nothing was read back: {printed}"
    );
}

#[test]
fn fio_reads_back_what_it_wrote_through_every_kind_of_disk() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = Folder::new();
    let image = folder.empty("a.img", 64 * MIB);
    let direct = folder.empty("b.img", 64 * MIB);
    let direct = format!("direct=file({direct},direct=true)");
    let server = Server::start(&[&format!("file={image}"), "memory=memory(64M)", &direct]);
    for export in ["file", "memory", "direct"] {
        fio_verifies(&server.uri(export), "4k", 4);
        fio_verifies(&server.uri(export), "256k", 2);
    }
}

#[test]
fn fio_reads_back_what_it_wrote_without_io_uring() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let (_image, server) = server_fixture::empty_with(&["--engine=threads"], 64 * MIB);
    fio_verifies(&server.uri(""), "4k", 4);
    fio_verifies(&server.uri(""), "256k", 2);
}

#[test]
fn fio_reads_back_blocks_of_every_size() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let (_image, server) = server_fixture::empty(64 * MIB);
    fio_verifies(&server.uri(""), "512-128k", 2);
}

#[test]
fn nbdkit_serves_on_what_we_serve() {
    let needs = [requires::command("nbdkit"), requires::command("nbdcopy")];
    if !requires::all(&needs) {
        return;
    }
    for by in WAYS {
        let (image, server) = server_fixture::empty(8 * MIB);
        let source = image.folder().filled("source", 8 * MIB, 4);
        let upstream = format!("uri={}", server.uri_by(by, ""));
        let copy = format!("nbdcopy --flush {source} \"$uri\"");
        program("nbdkit", &["-U", "-", "nbd", &upstream, "--run", &copy]).ok();
        drop(server);
        assert_same(&source, &image);
    }
}

#[test]
fn the_stock_client_lists_our_exports() {
    if !requires::all(&[requires::command("nbd-client")]) {
        return;
    }
    let server = Server::start(&["one=memory(1M)", "two=memory(1M)"]);
    let port = server.port().to_string();
    let printed = program("nbd-client", &["-l", "127.0.0.1", &port]).ok();
    // A name may have a description behind it.
    let listed: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.split(':').next())
        .collect();
    for name in ["one", "two"] {
        assert!(listed.contains(&name), "{printed}");
    }
}

//! The clients, and the work that each does on the image of a cell.
//!
//! A work panics where the client fails or saw something wrong, and returns what the image must hold
//! once the server has stopped; nothing where only the client knows what it wrote and checked.

use std::process::Command;

use outboard_tests::image::{MIB, assert_same};
use outboard_tests::said::{self, Said, nbdsh, program, run};
use outboard_tests::server::Server;
use rustix::process::Signal;
use serde_json::Value;

use super::transports::Transport;
use super::{Cell, DATA, SIZE, index, sparse};

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    pub(crate) work: fn(&Cell) -> Option<Vec<u8>>,
    /// Why it cannot be used over a transport; nothing where it can.
    pub(crate) cannot: fn(Transport) -> Option<&'static str>,
}

/// All clients.
pub(crate) const CLIENTS: &[Client] = &[
    client("nbdinfo", nbdinfo),
    client("nbdcopy", nbdcopy),
    client("nbdsh", nbdsh_script),
    client("qemu-img convert", qemu_img_convert),
    client("qemu-img map", qemu_img_map),
    client("qemu-img compare", qemu_img_compare),
    client("qemu-io", qemu_io),
    Client {
        name: "fio",
        work: fio,
        cannot: |transport| {
            let why = "fio does not let libnbd take certificates from where its URI says";
            (transport == Transport::Tls).then_some(why)
        },
    },
    client("nbdkit nbd plugin", nbdkit),
    client("outboard copy", outboard_copy),
    client("outboard remote disk", remote_disk),
];

const fn client(name: &'static str, work: fn(&Cell) -> Option<Vec<u8>>) -> Client {
    Client {
        name,
        work,
        cannot: |_| None,
    }
}

fn nbdinfo(cell: &Cell) -> Option<Vec<u8>> {
    let uri = cell.place.uri();
    let printed = program("nbdinfo", &["--json", &uri]).ok();
    let info: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(info["exports"][0]["export-size"], SIZE);
    let printed = program("nbdinfo", &["--map", "--json", &uri]).ok();
    assert_eq!(mapped(&printed, "offset", |piece| piece["type"] == 0), DATA);
    Some(sparse())
}

/// The ranges of a map that are data, neighbours joined.
fn mapped(printed: &str, start: &str, is_data: impl Fn(&Value) -> bool) -> Vec<(u64, u64)> {
    let map: Value = serde_json::from_str(printed).expect("JSON");
    let mut data: Vec<(u64, u64)> = Vec::new();
    let mut end = 0;
    for piece in map.as_array().expect("a list") {
        let number = |name: &str| piece[name].as_u64().expect("a number");
        let (offset, len) = (number(start), number("length"));
        assert_eq!(offset, end, "a map without gaps: {printed}");
        end = offset + len;
        if !is_data(piece) {
            continue;
        }
        match data.last_mut() {
            Some((before, so_far)) if *before + *so_far == offset => *so_far += len,
            _ => data.push((offset, len)),
        }
    }
    assert_eq!(end, SIZE, "a map to the end: {printed}");
    data
}

fn nbdcopy(cell: &Cell) -> Option<Vec<u8>> {
    let (uri, source, back) = (cell.place.uri(), cell.source(), cell.folder.at("back"));
    let connections = connections(cell);
    program("nbdcopy", &["--flush", &connections, &source, &uri]).ok();
    program("nbdcopy", &[&connections, &uri, &back]).ok();
    assert_same(&source, &back);
    content_of(&source)
}

fn nbdsh_script(cell: &Cell) -> Option<Vec<u8>> {
    let source = cell.source();
    nbdsh("checksums", &[&cell.place.uri(), &source]).ok();
    content_of(&source)
}

/// Runs a command of qemu-img that can reach the export.
fn qemu_img(cell: &Cell, command: &str, args: &[&str]) -> Said {
    let mut qemu_img = Command::new("qemu-img");
    qemu_img.arg(command).args(cell.place.qemu_options());
    run(qemu_img.args(args))
}

fn qemu_img_convert(cell: &Cell) -> Option<Vec<u8>> {
    let (export, source, back) = (cell.place.qemu(), cell.source(), cell.folder.at("back"));
    let up = ["-n", "-f", "raw", "-O", "raw", &source, &export];
    qemu_img(cell, "convert", &up).ok();
    qemu_img(cell, "convert", &["-O", "raw", &export, &back]).ok();
    assert_same(&source, &back);
    content_of(&source)
}

fn qemu_img_map(cell: &Cell) -> Option<Vec<u8>> {
    let printed = qemu_img(cell, "map", &["--output=json", &cell.place.qemu()]).ok();
    assert_eq!(
        mapped(&printed, "start", |piece| piece["data"] == true),
        DATA
    );
    Some(sparse())
}

/// Compares with a file that is the same, and with one that differs in its last byte.
fn qemu_img_compare(cell: &Cell) -> Option<Vec<u8>> {
    let same = cell.folder.at("same");
    let mut content = sparse();
    std::fs::write(&same, &content).expect("room for a file");
    let compare = || qemu_img(cell, "compare", &[&cell.place.qemu(), &same]);
    assert!(compare().ok().contains("identical"));
    *content.last_mut().expect("a last byte") = 1;
    std::fs::write(&same, &content).expect("room for a file");
    let said = compare();
    assert_eq!(said.code, Some(1), "{said:?}");
    Some(sparse())
}

fn qemu_io(cell: &Cell) -> Option<Vec<u8>> {
    let commands = [
        "read -P 0 1M 3M",
        "write -P 0xaa 512 1536",
        "read -P 0xaa 512 1536",
        "write -f -P 0xbb 1M 2M",
        "write -z 2M 512k",
        "read -P 0 2M 512k",
        "aio_write -P 0xcc 7M 64k",
        "aio_write -P 0xcd 7232k 64k",
        "aio_flush",
        "discard 6M 512k",
        "flush",
        "read -P 0xcc 7M 64k",
        "read -P 0xcd 7232k 64k",
    ];
    let mut qemu_io = Command::new("qemu-io");
    qemu_io.args(cell.place.qemu_options());
    for command in commands {
        qemu_io.args(["-c", command]);
    }
    let printed = run(qemu_io.arg(cell.place.qemu())).ok();
    // qemu-io succeeds even if a command of it fails.
    for bad in ["failed", "mismatch", "verification", "error"] {
        assert!(!printed.contains(bad), "{printed}");
    }
    let mut expected = sparse();
    let mut put = |offset: u64, len: u64, byte: u8| {
        expected[index(offset)..index(offset + len)].fill(byte);
    };
    put(512, 1536, 0xaa);
    put(MIB, 2 * MIB, 0xbb);
    put(2 * MIB, 512 << 10, 0);
    put(7 * MIB, 64 << 10, 0xcc);
    put(7232 << 10, 64 << 10, 0xcd);
    Some(expected)
}

/// fio writes blocks with their checksums all over the image and reads them back; its blocks know where
/// they belong.
fn fio(cell: &Cell) -> Option<Vec<u8>> {
    let mut fio = Command::new("fio");
    fio.args(["--name=verify", "--ioengine=nbd", "--iodepth=16"])
        .args(["--rw=randwrite", "--bs=16k", "--size=8m", "--fsync=64"])
        .args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"])
        .args(["--verify_state_save=0"])
        .arg(format!("--uri={}", cell.place.uri()));
    let printed = run(&mut fio).ok();
    assert!(
        printed.contains("READ:"),
        "nothing was read back: {printed}"
    );
    None
}

fn nbdkit(cell: &Cell) -> Option<Vec<u8>> {
    let (source, back) = (cell.source(), cell.folder.at("back"));
    let nbdcopy = format!("nbdcopy {}", connections(cell));
    let copy = format!("{nbdcopy} --flush {source} \"$uri\" && {nbdcopy} \"$uri\" {back}");
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["-U", "-", "nbd"]).args(cell.place.nbdkit());
    run(nbdkit.args(["shared=true", "--run", &copy])).ok();
    assert_same(&source, &back);
    content_of(&source)
}

fn outboard_copy(cell: &Cell) -> Option<Vec<u8>> {
    let (uri, source, back) = (cell.place.uri(), cell.source(), cell.folder.at("back"));
    let connections = connections(cell);
    let copy = |from: &str, to: &str| run(&mut said::outboard(&["copy", &connections, from, to]));
    copy(&source, &uri).ok();
    copy(&uri, &back).ok();
    assert_same(&source, &back);
    content_of(&source)
}

/// Our own client as the disk of a second server of ours, and a client of that.
fn remote_disk(cell: &Cell) -> Option<Vec<u8>> {
    let (source, back) = (cell.source(), cell.folder.at("back"));
    let connections = cell.place.transport().connections();
    let disk = format!("remote({},connections={connections})", cell.place.uri());
    let upstream = Server::start(&[&disk]);
    let uri = upstream.uri("");
    program("nbdcopy", &["--flush", &source, &uri]).ok();
    program("nbdcopy", &[&uri, &back]).ok();
    let ended = upstream.stop(Signal::TERM);
    assert_eq!(ended, Some(0), "the end of the server between");
    assert_same(&source, &back);
    content_of(&source)
}

/// As many connections as there can be, as nbdcopy and ours are configured.
fn connections(cell: &Cell) -> String {
    format!("--connections={}", cell.place.transport().connections())
}

fn content_of(source: &str) -> Option<Vec<u8>> {
    Some(std::fs::read(source).expect("a source to read"))
}

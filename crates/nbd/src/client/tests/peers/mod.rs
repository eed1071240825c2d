//! The servers that are installed, and our own: random requests against the model, and a server
//! that is killed over and over while it is written to.

mod allocation;
mod filters;
mod oldstyle;
mod outboard;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Range, WriteFlags};
use rustix::process::{Pid, Signal, kill_process};
use testkit::proc::Process;
use testkit::{OpSpace, check_in_batches, gather, requires, single};

use super::basics::random_ops;
use super::{in_engine, one_connection, until};
use crate::client::{Address, Client, ClientConfig, Target};

const SIZE: u64 = 8 << 20;
const SOON: Duration = Duration::from_secs(10);

fn unix(path: &Path, export: &str) -> Target {
    Target::new(Address::Unix(path.to_owned()), export.to_owned())
}

/// Random requests, many at once, and then everything is where it should be.
async fn agrees_with_the_model(target: Target) {
    let config = ClientConfig {
        connections: 2,
        ..ClientConfig::default()
    };
    let client = Client::connect(target, config).await.unwrap();
    let space = OpSpace {
        size: SIZE,
        block_size: client.geometry().block_size.max(512),
        len_max: 1 << 20,
    };
    let mut ops = random_ops(space, 300);
    if !client.geometry().trim.any() {
        ops.retain(|op| !matches!(op, testkit::Op::Trim { .. }));
    }
    check_in_batches(&*client, &ops, 16).await.unwrap();
    assert_eq!(client.health().last_error, None);
    client.close().await;
}

/// nbdkit on a socket in `folder`, with these arguments behind it.
fn start_nbdkit(folder: &Path, arguments: &[&str]) -> (Process, Target) {
    let socket = folder.join("socket");
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--exit-with-parent", "--unix"]);
    let mut nbdkit = Process::start(command.arg(&socket).args(arguments)).unwrap();
    nbdkit.wait_for_socket(&socket, SOON).unwrap();
    (nbdkit, unix(&socket, ""))
}

/// qemu-nbd on a socket in `folder`, for an image of this format.
fn start_qemu_nbd(folder: &Path, format: &str, image: &Path) -> (Process, Target) {
    let socket = folder.join("socket");
    let mut command = Command::new("qemu-nbd");
    command.args(["--persistent", "--shared=8", "--discard=unmap"]);
    command.arg(format!("--format={format}"));
    command.args(["--export-name=disk", "--description=some words"]);
    command.arg("--socket").arg(&socket);
    let mut qemu = Process::start(command.arg(image)).unwrap();
    qemu.wait_for_socket(&socket, SOON).unwrap();
    (qemu, unix(&socket, "disk"))
}

/// A file of [`SIZE`] bytes without any.
fn empty_image(folder: &Path) -> PathBuf {
    let image = folder.join("image");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    image
}

#[test]
fn nbdkit_agrees_with_the_model() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = empty_image(folder.path());
    let image = image.to_str().unwrap();
    for arguments in [&["memory", "8M"][..], &["file", image]] {
        let folder = tempfile::tempdir().unwrap();
        let (_nbdkit, target) = start_nbdkit(folder.path(), arguments);
        in_engine(|| agrees_with_the_model(target));
    }
}

#[test]
fn qemu_nbd_agrees_with_the_model() {
    if !requires::all(&[requires::command("qemu-nbd")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = empty_image(folder.path());
    let (_qemu, target) = start_qemu_nbd(folder.path(), "raw", &image);
    in_engine(|| agrees_with_the_model(target));
}

/// A program that went to the background by itself, known by the file with its id.
struct Background(PathBuf);

impl Drop for Background {
    fn drop(&mut self) {
        let id = std::fs::read_to_string(&self.0).unwrap_or_default();
        if let Some(id) = id.trim().parse().ok().and_then(Pid::from_raw)
            && let Err(e) = kill_process(id, Signal::TERM)
        {
            eprintln!("nbd-server had ended before: {e}");
        }
    }
}

/// The reference server listens on TCP with any options, and takes no port 0.
fn start_nbd_server(folder: &Path) -> (Background, u16) {
    let path = |name: &str| folder.join(name);
    std::fs::File::create(path("image"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let config = format!(
        "[generic]\nlistenaddr = 127.0.0.1\nport = {port}\n[disk]\nexportname = {}\n\
         flush = true\nfua = true\ntrim = true\n",
        path("image").display(),
    );
    std::fs::write(path("config"), config).unwrap();
    let mut command = Command::new("nbd-server");
    command.arg("-C").arg(path("config"));
    command.arg("-p").arg(path("id"));
    let mut starter = Process::start(&mut command).unwrap();
    let server = Background(path("id"));
    assert!(
        starter.wait(SOON).unwrap().success(),
        "{}",
        starter.stderr()
    );
    (server, port)
}

#[test]
fn nbd_server_agrees_with_the_model() {
    if !requires::all(&[requires::command("nbd-server")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (server, port) = start_nbd_server(folder.path());
    in_engine(|| async {
        until("nbd-server listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        agrees_with_the_model(format!("nbd://127.0.0.1:{port}/disk").parse().unwrap()).await;
    });
    drop(server);
}

/// `kill -9` takes nothing from the page cache, so all that was acknowledged must be there, and
/// what was in flight must arrive, whenever the server dies.
#[test]
fn a_server_killed_over_and_over_loses_nothing() {
    const BLOCKS: u64 = 1500;
    const DEATHS: usize = 6;
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (socket, image) = (folder.path().join("socket"), folder.path().join("image"));
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(SIZE).unwrap();
    // Of a server that names no disk a client must recognize the content: here the backup of a GPT.
    file.write_all_at(b"EFI PART", SIZE - 512).unwrap();
    let start = || {
        drop(std::fs::remove_file(&socket));
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--exit-with-parent", "--unix"]);
        command.arg(&socket).arg("file").arg(&image);
        let mut nbdkit = Process::start(&mut command).unwrap();
        nbdkit.wait_for_socket(&socket, SOON).unwrap();
        nbdkit
    };
    let mut nbdkit = start();
    in_engine(|| async {
        let client = Client::connect(unix(&socket, ""), one_connection())
            .await
            .unwrap();
        let block = |nth: u64| Range::new(nth * 4096, 4096);
        let fill = |nth: u64| vec![u8::try_from(nth % 251).unwrap(); 4096];
        let writer = Arc::clone(&client);
        let mut writing = engine::spawn(async move {
            for first in (0..BLOCKS).step_by(10) {
                let ten = (first..first + 10)
                    .map(|nth| writer.write(block(nth), single(fill(nth)), WriteFlags::empty()));
                for written in futures_util::future::join_all(ten).await {
                    written.unwrap();
                }
                engine::clock::sleep(Duration::from_millis(2)).await;
            }
        });
        for _ in 0..DEATHS {
            engine::clock::sleep(Duration::from_millis(40)).await;
            nbdkit.signal(Signal::KILL).unwrap();
            nbdkit = start();
        }
        (&mut writing).await.unwrap();
        client.flush().await.unwrap();
        for nth in 0..BLOCKS {
            let read = client.read(block(nth)).await.unwrap();
            assert!(gather(&read) == fill(nth), "block {nth}");
        }
        let deaths = u64::try_from(DEATHS).unwrap();
        let reconnects = client.health().reconnects;
        assert!((1..=deaths).contains(&reconnects), "{reconnects}");
        client.close().await;
    });
}

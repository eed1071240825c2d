//! What happens to an attachment over FUSE when its server comes back changed.
//!
//! With its power it has lost what it acknowledged and never flushed, and a client that merely connects
//! again would let the next flush report it safe. Or the disk has grown, and the device must too.
//!
//! The server runs in this process on a disk that loses what was not flushed; the attachment is made by
//! the example program, and written to by programs of the system.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use nbd::server::{Export, Limits, ListenAddress, Listener, Server};
use testkit::{CrashDisk, requires};
use tokio::sync::oneshot;

const MIB: usize = 1 << 20;

/// A server that is up, and how it is ended.
struct Up {
    port: u16,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Up {
    /// Serves `disk` on `port`, 0 for any.
    fn start(disk: Arc<CrashDisk>, port: u16) -> Self {
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            let config = engine::Config {
                backend: engine::BackendChoice::Threads,
                cores: 1,
            };
            let run = |handle: engine::Handle| async move {
                let export = Export {
                    name: "disk".to_owned(),
                    description: String::new(),
                    disk: disk.into(),
                };
                let server = Server::new(vec![export], Limits::default()).unwrap();
                let listener = Listener::tcp(([127, 0, 0, 1], port).into()).unwrap();
                let ListenAddress::Tcp(address) = *listener.address() else {
                    panic!("a TCP listener has a TCP address")
                };
                tell.send(address.port()).unwrap();
                let stopped = async { drop(stopped.await) };
                server
                    .serve(&handle, vec![listener], stopped)
                    .await
                    .unwrap();
            };
            engine::run(&config, run).unwrap();
        };
        let thread = engine::thread("server", serve).unwrap();
        let port = told.recv().unwrap();
        Self { port, stop, thread }
    }

    fn end(self) {
        drop(self.stop);
        self.thread.join().unwrap();
    }
}

struct World(tempfile::TempDir);

impl World {
    fn attachment(&self, args: &[&str]) -> String {
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(2).unwrap().join("examples/attachment");
        let mut command = Command::new(program);
        command
            .args(args)
            .env("OUTBOARD_RUNTIME_DIR", self.0.path().join("run"));
        tool_message(&mut command)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A test that failed half way must not leave a device to the next one.
        if self.path("run").exists() {
            drop(self.attachment(&["detach", "--all", "--force"]));
        }
    }
}

#[track_caller]
fn tool_message(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Writes past every cache of this machine, so that the server acknowledges it and no flush follows.
fn write_past_caches(from: &Path, device: &str) {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", from.display()))
        .arg(format!("of={device}"))
        .args(["bs=64k", "oflag=direct", "conv=notrunc"]);
    tool_message(&mut dd);
}

fn can_run() -> bool {
    requires::all(&[
        requires::root(),
        requires::fuse(),
        requires::loop_device(),
        requires::command("dd"),
    ])
}

#[test]
fn writes_that_a_server_lost_with_its_power_are_there_after_the_next_flush() {
    if !can_run() {
        return;
    }
    let world = World(tempfile::tempdir().unwrap());
    let data = testkit::pattern(1, block::Range::new(0, 2 * MIB as u64));
    let file = world.path("data");
    std::fs::write(&file, &data).unwrap();

    let identity = block::Identity::of("test", &[b"a disk that loses power"]);
    let first = CrashDisk::new(8 * MIB as u64).identified(identity.clone());
    let first = Arc::new(first);
    let up = Up::start(first.clone(), 0);
    let uri = format!("nbd://127.0.0.1:{}/disk", up.port);
    let device = world.attachment(&["attach", &uri, "--via", "fuse"]);
    write_past_caches(&file, &device);
    assert!(first.live()[..data.len()] == data, "the server has it");
    let left = first.durable();
    assert!(left[..data.len()] != data, "and would lose it");

    // A server that receives SIGTERM flushes its disk; what it flushes is not what is served afterwards.
    let port = up.port;
    up.end();
    let second = Arc::new(CrashDisk::from_bytes(left).identified(identity));
    let up = Up::start(second.clone(), port);
    tool_message(Command::new("sync").arg(&device));
    let durable = second.durable();
    assert!(durable[..data.len()] == data, "the flush was durable");
    world.attachment(&["detach", &device]);
    up.end();
}

#[test]
fn a_disk_that_is_larger_when_its_server_returns_is_larger_here() {
    if !can_run() {
        return;
    }
    let world = World(tempfile::tempdir().unwrap());
    let up = Up::start(Arc::new(CrashDisk::new(8 * MIB as u64)), 0);
    let uri = format!("nbd://127.0.0.1:{}/disk", up.port);
    let device = world.attachment(&["attach", &uri, "--via", "fuse"]);
    assert_eq!(
        world.attachment(&["refresh", &device]),
        (8 * MIB).to_string()
    );
    let port = up.port;
    up.end();
    let grown = Arc::new(CrashDisk::new(16 * MIB as u64));
    let up = Up::start(grown.clone(), port);
    assert_eq!(
        world.attachment(&["refresh", &device]),
        (16 * MIB).to_string()
    );
    let size = tool_message(Command::new("blockdev").args(["--getsize64", &device]));
    assert_eq!(size, (16 * MIB).to_string());
    let data = vec![7; 16 * MIB];
    let file = world.path("data");
    std::fs::write(&file, &data).unwrap();
    write_past_caches(&file, &device);
    assert!(grown.live() == data, "also behind the old end");
    world.attachment(&["detach", &device]);
    up.end();
}

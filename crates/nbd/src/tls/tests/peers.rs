//! Tests against other people's TLS (GnuTLS): their clients at our server, our client at their
//! servers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use testkit::proc::Process;
use testkit::{MemDisk, requires};

use super::pki::Pki;
use super::sessions::{exercise, named, serving, target};
use crate::client::{Client, ClientConfig, Target};
use crate::server::{Limits, Rules};
use crate::tls::{Demand, ServerTls, ServerTlsFiles};

const SOON: Duration = Duration::from_secs(20);
const SIZE: usize = 24 << 20;

fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes
}

/// Runs a program while the server runs and asserts that it succeeds.
async fn run(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let told = format!("{command:?}");
    let output = engine::blocking(move || {
        let mut process = Process::start(&mut command).expect("it is installed");
        let status = process.wait(SOON).expect("it ends");
        (status.success(), process.stdout(), process.stderr())
    })
    .await;
    assert!(output.0, "{told} failed\n{}\n{}", output.1, output.2);
    output.1
}

/// A server of [`SIZE`] bytes of noise that changes keys now and then. GnuTLS takes at most eight
/// changes a second.
fn serving_noise<F: Future<Output = ()>>(pki: &Pki, body: impl FnOnce(SocketAddr) -> F) {
    let files = ServerTlsFiles::in_folder(pki.folder());
    let tls = ServerTls::with_rekey_after(files, 400).expect("good files");
    let disk = Arc::new(MemDisk::from_bytes(noise(SIZE)));
    let exports = vec![(named("disk", disk), Rules::default())];
    serving(
        exports,
        Limits::default(),
        Some((tls, Demand::Network)),
        body,
    );
}

/// A target of a copy.
struct Copy {
    path: String,
    _folder: tempfile::TempDir,
}

impl Copy {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("copy");
        Self {
            path: path.to_str().expect("UTF-8").to_owned(),
            _folder: folder,
        }
    }

    fn read(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("a copy")
    }
}

#[test]
fn libnbd_s_programs_read_and_write_under_tls() {
    let needs = [requires::command("nbdinfo"), requires::command("nbdcopy")];
    if !requires::all(&needs) {
        return;
    }
    let (pki, copy) = &(Pki::new(), Copy::new());
    serving_noise(pki, |address| async move {
        let uri = target(address, "disk", Some(pki.folder())).to_string();
        let info = run("nbdinfo", &["--json", &uri]).await;
        assert!(info.contains("\"TLS\": true"), "{info}");
        run("nbdcopy", &[&uri, &copy.path]).await;
        assert!(copy.read() == noise(SIZE));
        let mut other = noise(SIZE);
        other.reverse();
        std::fs::write(&copy.path, &other).expect("room");
        run("nbdcopy", &["--flush", &copy.path, &uri]).await;
        run("nbdcopy", &[&uri, &copy.path]).await;
        assert!(copy.read() == other);
    });
}

#[test]
fn qemu_img_reads_under_tls() {
    if !requires::all(&[requires::command("qemu-img")]) {
        return;
    }
    let (pki, copy) = &(Pki::new(), Copy::new());
    serving_noise(pki, |address| async move {
        let certificates = pki.folder().display();
        let object = format!("tls-creds-x509,id=t,endpoint=client,dir={certificates}");
        let image = format!(
            "driver=nbd,host=localhost,port={},export=disk,tls-creds=t",
            address.port()
        );
        let words = [
            "convert",
            "--object",
            &object,
            "--image-opts",
            &image,
            "-O",
            "raw",
        ];
        run("qemu-img", &[&words[..], &[&copy.path]].concat()).await;
        assert!(copy.read() == noise(SIZE));
    });
}

/// A port that is most likely free.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

async fn exercise_at(target: Target) {
    let config = ClientConfig {
        connections: 2,
        ..ClientConfig::default()
    };
    for _ in 0..200 {
        match Client::connect(target.clone(), config.clone()).await {
            Ok(client) => {
                exercise(&client).await;
                assert_eq!(client.health().reconnects, 0);
                return client.close().await;
            }
            // It does not listen yet.
            Err(crate::client::ClientError::Connect { .. }) => {
                engine::clock::sleep(Duration::from_millis(50)).await;
            }
            Err(e) => panic!("{e}"),
        }
    }
    panic!("the server never listened");
}

/// Exercises the server behind `command` at `port`, then shows that a stranger is not let in.
fn our_client_at(mut command: Command, pki: &Pki, port: u16) {
    let mut server = Process::start(&mut command).expect("it is installed");
    let address = ([127, 0, 0, 1], port).into();
    let good = target(address, "", Some(pki.folder()));
    let stranger = Pki::new();
    let config = engine::Config::default();
    let run = |_| async {
        exercise_at(good).await;
        let mut bad = target(address, "", Some(stranger.folder()));
        if let Some(tls) = &mut bad.tls {
            tls.verify_peer = false;
        }
        let refused = Client::connect(bad, ClientConfig::default()).await;
        let error = refused.expect_err("another authority signed its certificate");
        assert!(!error.to_string().is_empty());
        let clear = target(address, "", None);
        let refused = Client::connect(clear, ClientConfig::default()).await;
        refused.expect_err("TLS is required");
    };
    engine::run(&config, run).expect("the engine starts");
    server
        .signal(rustix::process::Signal::TERM)
        .expect("it runs");
    server.wait(SOON).expect("it ends");
}

fn folder_text(folder: &Path) -> &str {
    folder.to_str().expect("UTF-8")
}

#[test]
fn our_client_gets_on_with_nbdkit_under_tls() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let pki = Pki::new();
    let port = free_port();
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--exit-with-parent", "--ipaddr=127.0.0.1"]);
    command.args(["--tls=require", "--tls-verify-peer"]);
    command.arg(format!("--port={port}"));
    command.arg(format!("--tls-certificates={}", folder_text(pki.folder())));
    command.args(["memory", "24M"]);
    our_client_at(command, &pki, port);
}

#[test]
fn our_client_gets_on_with_qemu_nbd_under_tls() {
    if !requires::all(&[requires::command("qemu-nbd")]) {
        return;
    }
    let pki = Pki::new();
    let image = tempfile::NamedTempFile::new().expect("a file");
    image.as_file().set_len(SIZE as u64).expect("room");
    let port = free_port();
    let mut command = Command::new("qemu-nbd");
    let folder = folder_text(pki.folder());
    let object = format!("tls-creds-x509,id=t,endpoint=server,dir={folder},verify-peer=on");
    command.args([
        "--persistent",
        "--shared=8",
        "--format=raw",
        "--bind=127.0.0.1",
    ]);
    command.args(["--tls-creds=t", "--object", &object]);
    command.arg(format!("--port={port}")).arg(image.path());
    our_client_at(command, &pki, port);
}

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
use crate::tls::{Demand, ServerTls, ServerTlsFiles, TlsVersion};

pub(super) const SOON: Duration = Duration::from_secs(20);
pub(super) const SIZE: usize = 24 << 20;

pub(super) fn noise(len: usize) -> Vec<u8> {
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
    let text = format!("{command:?}");
    let (is_success, stdout, stderr) = output(command).await;
    assert!(is_success, "{text} failed\n{stdout}\n{stderr}");
    stdout
}

/// Runs a program while the server runs. Whether it succeeded, and its output.
pub(super) async fn output(mut command: Command) -> (bool, String, String) {
    engine::blocking(move || {
        let mut process = Process::start(&mut command).expect("it is installed");
        let status = process.wait(SOON).expect("it ends");
        (status.success(), process.stdout(), process.stderr())
    })
    .await
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
pub(super) struct Copy {
    pub(super) path: String,
    _folder: tempfile::TempDir,
}

impl Copy {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("copy");
        Self {
            path: path.to_str().expect("UTF-8").to_owned(),
            _folder: folder,
        }
    }

    pub(super) fn read(&self) -> Vec<u8> {
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
pub(super) fn free_port() -> u16 {
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

/// Exercises the server behind `command` at `port`, then shows that a stranger is not let in. The server has no
/// version of TLS but `version`.
pub(super) fn our_client_at(mut command: Command, pki: &Pki, port: u16, version: TlsVersion) {
    let mut server = Process::start(&mut command).expect("it is installed");
    let address = ([127, 0, 0, 1], port).into();
    let strict = target(address, "", Some(pki.folder()));
    let mut good = strict.clone();
    if let Some(tls) = &mut good.tls {
        tls.minimum = version;
    }
    let stranger = Pki::new();
    let config = engine::Config::default();
    let run = |_| async {
        exercise_at(good).await;
        if version != TlsVersion::default() {
            let refused = Client::connect(strict, ClientConfig::default()).await;
            let error = refused.expect_err("TLS 1.3 is required").to_string();
            // GnuTLS' servers give no reason.
            assert!(error.contains("no TLS: "), "{error}");
        }
        let mut bad = target(address, "", Some(stranger.folder()));
        if let Some(tls) = &mut bad.tls {
            tls.verify_peer = false;
            tls.minimum = version;
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

pub(super) fn folder_text(folder: &Path) -> &str {
    folder.to_str().expect("UTF-8")
}

/// nbdkit that requires TLS.
pub(super) fn nbdkit(pki: &Pki, port: u16) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--exit-with-parent", "--ipaddr=127.0.0.1"]);
    command.args(["--tls=require", "--tls-verify-peer"]);
    command.arg(format!("--port={port}"));
    command.arg(format!("--tls-certificates={}", folder_text(pki.folder())));
    command.args(["memory", "24M"]);
    command
}

/// qemu-nbd that requires TLS, on a file of [`SIZE`] bytes. `settings` are of its TLS.
pub(super) fn qemu_nbd(pki: &Pki, port: u16, image: &Path, settings: &str) -> Command {
    let mut command = Command::new("qemu-nbd");
    let folder = folder_text(pki.folder());
    let object =
        format!("tls-creds-x509,id=t,endpoint=server,dir={folder},verify-peer=on{settings}");
    command.args([
        "--persistent",
        "--shared=8",
        "--format=raw",
        "--bind=127.0.0.1",
    ]);
    command.args(["--tls-creds=t", "--object", &object]);
    command.arg(format!("--port={port}")).arg(image);
    command
}

#[test]
fn our_client_gets_on_with_nbdkit_under_tls() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let pki = Pki::new();
    let port = free_port();
    our_client_at(nbdkit(&pki, port), &pki, port, TlsVersion::Tls13);
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
    let command = qemu_nbd(&pki, port, image.path(), "");
    our_client_at(command, &pki, port, TlsVersion::Tls13);
}

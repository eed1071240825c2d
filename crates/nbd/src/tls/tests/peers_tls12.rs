//! Tests against other people's TLS 1.2: GnuTLS in their servers and clients, which are configured without TLS 1.3, and OpenSSL.

use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;

use rustls::SupportedCipherSuite;
use testkit::proc::Process;
use testkit::{MemDisk, requires};

use super::peers::{Copy, SIZE, SOON, free_port, nbdkit, noise, our_client_at, output, qemu_nbd};
use super::pki::Pki;
use super::sessions::{named, serving, target};
use super::streams::{CIPHERS, pattern};
use crate::server::{Limits, Rules};
use crate::tls::{Demand, Handshake, HandshakeStep, RawSocket, ServerTls, TlsVersion};

/// GnuTLS' names of the ciphers.
const GNUTLS_CIPHERS: [&str; 3] = ["AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"];

/// A setting of qemu's TLS: this cipher in TLS 1.2.
fn priority(cipher: &str) -> String {
    format!(",priority=NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+{cipher}")
}

/// Takes TLS 1.3 from programs that use GnuTLS, and have no setting for that.
fn without_tls13(pki: &Pki, command: &mut Command) {
    pki.write("gnutls", "[overrides]\ndisabled-version = tls1.3\n");
    command.env("GNUTLS_SYSTEM_PRIORITY_FILE", pki.folder().join("gnutls"));
}

/// Runs `body` while a server of ours has a disk of noise for clients with `minimum` or better.
fn serving_noise<F: Future<Output = ()>>(
    pki: &Pki,
    minimum: TlsVersion,
    body: impl FnOnce(SocketAddr) -> F,
) {
    let tls = ServerTls::load(pki.files_from(minimum)).expect("good files");
    let disk = Arc::new(MemDisk::from_bytes(noise(SIZE)));
    let exports = vec![(named("disk", disk), Rules::default())];
    let tls = Some((tls, Demand::Network));
    serving(exports, Limits::default(), tls, body);
}

fn qemu_img(pki: &Pki, address: SocketAddr, copy: &Copy, cipher: &str) -> Command {
    let (folder, port) = (pki.folder().display(), address.port());
    let priority = priority(cipher);
    let object = format!("tls-creds-x509,id=t,endpoint=client,dir={folder}{priority}");
    let image = format!("driver=nbd,host=localhost,port={port},export=disk,tls-creds=t");
    let mut command = Command::new("qemu-img");
    command.args(["convert", "--object", &object, "--image-opts", &image]);
    command.args(["-O", "raw", &copy.path]);
    command
}

#[test]
fn qemu_img_of_tls_1_2_reads_where_that_is_allowed() {
    if !requires::all(&[requires::command("qemu-img")]) {
        return;
    }
    let pki = &Pki::new();
    for cipher in GNUTLS_CIPHERS {
        let copy = &Copy::new();
        serving_noise(pki, TlsVersion::Tls12, |address| async move {
            let (is_success, _, stderr) = output(qemu_img(pki, address, copy, cipher)).await;
            assert!(is_success, "{cipher}: {stderr}");
            assert!(copy.read() == noise(SIZE), "{cipher}");
        });
        serving_noise(pki, TlsVersion::Tls13, |address| async move {
            let (is_success, ..) = output(qemu_img(pki, address, copy, cipher)).await;
            assert!(!is_success, "{cipher}: TLS 1.3 is required");
        });
    }
}

#[test]
fn libnbd_without_tls_1_3_reads_and_writes_where_that_is_allowed() {
    if !requires::all(&[requires::command("nbdcopy")]) {
        return;
    }
    let (pki, copy) = (&Pki::new(), &Copy::new());
    serving_noise(pki, TlsVersion::Tls12, |address| async move {
        let uri = &target(address, "disk", Some(pki.folder())).to_string();
        let nbdcopy = |from: &str, to: &str| {
            let mut command = Command::new("nbdcopy");
            without_tls13(pki, &mut command);
            command.args(["--flush", from, to]);
            output(command)
        };
        let (is_success, _, stderr) = nbdcopy(uri, &copy.path).await;
        assert!(is_success && copy.read() == noise(SIZE), "{stderr}");
        let mut other = noise(SIZE);
        other.reverse();
        std::fs::write(&copy.path, &other).expect("room");
        let (is_success, _, stderr) = nbdcopy(&copy.path, uri).await;
        assert!(is_success, "{stderr}");
        let (is_success, _, stderr) = nbdcopy(uri, &copy.path).await;
        assert!(is_success && copy.read() == other, "{stderr}");
    });
}

#[test]
fn our_client_gets_on_with_qemu_nbd_of_tls_1_2() {
    if !requires::all(&[requires::command("qemu-nbd")]) {
        return;
    }
    let pki = Pki::new();
    for cipher in GNUTLS_CIPHERS {
        let image = tempfile::NamedTempFile::new().expect("a file");
        image.as_file().set_len(SIZE as u64).expect("room");
        let port = free_port();
        let command = qemu_nbd(&pki, port, image.path(), &priority(cipher));
        our_client_at(command, &pki, port, TlsVersion::Tls12);
    }
}

#[test]
fn our_client_gets_on_with_nbdkit_without_tls_1_3() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let pki = Pki::new();
    let port = free_port();
    let mut command = nbdkit(&pki, port);
    without_tls13(&pki, &mut command);
    our_client_at(command, &pki, port, TlsVersion::Tls12);
}

/// A socket that waits.
struct Waiting(RefCell<TcpStream>);

impl RawSocket for Waiting {
    fn receive(&self, into: &mut [u8], _eagerly: bool) -> io::Result<usize> {
        self.0.borrow_mut().read(into)
    }

    fn send(&self, bytes: &[u8], _more: bool) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
}

/// OpenSSL's server that sends each line back in reverse.
fn openssl(pki: &Pki, port: u16, cipher: &str) -> Process {
    let mut command = Command::new("openssl");
    command.current_dir(pki.folder());
    command.args(["s_server", "-tls1_2", "-rev", "-cipher", cipher]);
    command.args(["-cert", "server-cert.pem", "-key", "server-key.pem"]);
    command.args(["-CAfile", "ca-cert.pem", "-Verify", "1", "-accept"]);
    command.arg(format!("127.0.0.1:{port}"));
    Process::start(&mut command).expect("it is installed")
}

/// Connects, once the server listens.
fn connect(port: u16) -> TcpStream {
    for _ in 0..200 {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(50)),
        }
    }
    panic!("the server never listened");
}

/// Lines of several lengths go to the server and come back in reverse.
fn converse(pki: &Pki, port: u16, cipher: SupportedCipherSuite) {
    let mut stream = connect(port);
    stream.set_read_timeout(Some(SOON)).expect("a socket");
    let mut handshake = Handshake::client(&pki.client_with(&[cipher])).expect("a client");
    let mut buffer = [0; 4096];
    let mut count = 0;
    loop {
        let step = handshake.advance(&buffer[..count]).expect("a good server");
        stream
            .write_all(&handshake.take_outgoing())
            .expect("it listens");
        if step == HandshakeStep::Finished {
            break;
        }
        count = stream.read(&mut buffer).expect("an answer");
    }
    let link = handshake.finish().expect("finished").link;
    let socket = Waiting(RefCell::new(stream));
    for len in [1, 100, 10_000] {
        let letters = pattern(len).into_iter().map(|byte| b'a' + byte % 26);
        let mut line: Vec<u8> = letters.collect();
        line.push(b'\n');
        let sent = link.send(&socket, &[IoSlice::new(&line)], false);
        assert_eq!(sent.expect("it listens"), line.len());
        let mut got: Vec<u8> = Vec::new();
        while got.len() < line.len() {
            let mut piece = [0; 3000];
            match link.receive(&socket, &mut &mut piece[..], false) {
                Ok(count) => got.extend(&piece[..count]),
                // A part of a record.
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
        line.pop();
        line.reverse();
        line.push(b'\n');
        assert!(got == line, "{len}");
    }
    link.close(&socket);
}

#[test]
fn our_client_gets_on_with_openssl() {
    if !requires::all(&[requires::command("openssl")]) {
        return;
    }
    let pki = Pki::new();
    let names = [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ];
    for (name, cipher) in names.into_iter().zip(&CIPHERS[1..]) {
        let port = free_port();
        let mut server = openssl(&pki, port, name);
        converse(&pki, port, *cipher);
        server
            .signal(rustix::process::Signal::TERM)
            .expect("it runs");
        server.wait(SOON).expect("it ends");
    }
}

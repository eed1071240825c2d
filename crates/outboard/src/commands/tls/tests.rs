//! Tests of what `tls` makes: that TLS works with it, and that nothing is lost for it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nbd::tls::{ClientTls, ServerTls, ServerTlsFiles, TlsVersion, VerifyPeer};

use super::init::{Args, ClientArgs, add_client, make};
use crate::output::Format;

#[derive(Debug, clap::Parser)]
struct Init {
    #[command(flatten)]
    args: Args,
}

#[derive(Debug, clap::Parser)]
struct ClientParser {
    #[command(flatten)]
    args: ClientArgs,
}

fn init(dir: &Path, options: &[&str]) -> Result<(), String> {
    init_for(dir, options, None)
}

fn init_for(dir: &Path, options: &[&str], group: Option<u32>) -> Result<(), String> {
    use clap::Parser;
    let dir = dir.to_str().expect("a name in UTF-8");
    let words = [&["init", dir], options].concat();
    let parsed = Init::try_parse_from(words).map_err(|e| e.to_string())?;
    make(&parsed.args, Format::Json, group).map_err(|failure| failure.text())
}

fn client(dir: &Path, name: &str) -> Result<(), String> {
    use clap::Parser;
    let dir = dir.to_str().expect("a name in UTF-8");
    let parsed = ClientParser::try_parse_from(["client", dir, name]).map_err(|e| e.to_string())?;
    add_client(&parsed.args, Format::Json).map_err(|failure| failure.text())
}

fn mode(path: &Path) -> u32 {
    let found = std::fs::metadata(path).expect("it is there");
    found.permissions().mode() & 0o777
}

#[test]
fn what_init_makes_is_what_both_sides_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("new/tls");
    init(
        &dir,
        &["--name", "nas.lan", "--client", "pi", "--client", "tv.lan"],
    )
    .expect("made");
    assert!(ServerTls::load(ServerTlsFiles::in_folder(&dir)).is_ok());
    for client in ["client-pi", "client-tv.lan"] {
        let dir = dir.join(client);
        assert!(
            ClientTls::load(
                "nas.lan",
                Some(&dir),
                VerifyPeer::Yes,
                TlsVersion::default()
            )
            .is_ok()
        );
        assert_eq!(mode(&dir.join("client-key.pem")), 0o600);
    }
    for key in ["ca-key.pem", "server-key.pem"] {
        assert_eq!(mode(&dir.join(key)), 0o600, "{key}");
    }
    assert!(!dir.join("client-cert.pem").exists());
}

#[test]
fn the_group_of_the_service_may_read_the_key_of_the_server_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    // A group of this process: every process may give its files to that.
    let group = rustix::process::getegid().as_raw();
    init_for(folder.path(), &["--client", "pi"], Some(group)).expect("made");
    let key = folder.path().join("server-key.pem");
    assert_eq!(mode(&key), 0o640);
    assert_eq!(std::fs::metadata(&key).expect("it is there").gid(), group);
    for other in ["ca-key.pem", "client-pi/client-key.pem"] {
        assert_eq!(mode(&folder.path().join(other)), 0o600, "{other}");
    }
}

#[test]
fn one_client_without_a_name_has_its_files_next_to_the_server_s() {
    let folder = tempfile::tempdir().expect("a folder");
    init(folder.path(), &[]).expect("made");
    assert!(
        ClientTls::load(
            "localhost",
            Some(folder.path()),
            VerifyPeer::Yes,
            TlsVersion::default()
        )
        .is_ok()
    );
    assert!(folder.path().join("client-cert.pem").exists());
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    init(folder.path(), &[]).expect("made");
    let before = std::fs::read(folder.path().join("server-key.pem")).expect("a file");
    let told = init(folder.path(), &["--client", "pi"]).expect_err("it is there");
    assert!(
        told.contains("ca-key.pem exists and is not overwritten"),
        "{told}"
    );
    assert!(!folder.path().join("client-pi").exists());
    let after = std::fs::read(folder.path().join("server-key.pem")).expect("a file");
    assert_eq!(before, after);
    client(folder.path(), "pi").expect("made");
    let told = client(folder.path(), "pi").expect_err("it is there");
    assert!(told.contains("exists and is not overwritten"), "{told}");
}

#[test]
fn names_that_could_leave_the_folder_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["", "../x", "a/b", "ä", "a b", &"x".repeat(65)] {
        assert!(init(folder.path(), &["--client", name]).is_err(), "{name}");
    }
    assert!(init(folder.path(), &["--client", "a", "--client", "a"]).is_err());
    let told = client(folder.path(), "a").expect_err("no authority yet");
    assert!(told.contains("ca-key.pem"), "{told}");
    assert!(init(folder.path(), &["--name", "no name"]).is_err());
}

//! `serve --config`: validation, what a reload changes and which clients it keeps, control requests.

use std::path::Path;

use rustix::process::Signal;

use super::serve::connect;
use super::sockets::{NbdSession, size_of_export};
use super::{Server, answer, failure, outboard, run, scrape, within_a_minute};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("c.toml"), text).expect("a file");
}

fn export(name: &str, rest: &str) -> String {
    format!("[[export]]\nname = \"{name}\"\n{rest}\n")
}

const HEAD: &str = "listen = [\"127.0.0.1:0\"]\n";

/// A server of `c.toml`, and its first URI.
fn serving(folder: &Path) -> (Server, String) {
    let (server, line) = Server::start(outboard(folder, &["serve", "--config", "c.toml"]));
    let uri = line
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned();
    (server, uri)
}

fn image(folder: &Path, size: u64) {
    let made = std::fs::File::create(folder.join("a.img")).and_then(|file| file.set_len(size));
    made.expect("an image");
}

#[test]
fn a_configuration_is_checked_without_serving_it() {
    let folder = folder();
    let good = [HEAD, &export("a", "disk = \"nowhere.img\"")].concat();
    write(folder.path(), &good);
    let check = ["serve", "--config", "c.toml", "--check"];
    assert_eq!(answer(folder.path(), &check), "c.toml: 1 export\n");
    write(folder.path(), &format!("{good}alow = [\"10.0.0.0/8\"]\n"));
    let (status, told) = failure(folder.path(), &check);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("c.toml, line 5, column 1: unknown key `alow`"),
        "{told}"
    );
    let told = answer(folder.path(), &["serve", "--check", "memory(1M)"]);
    assert_eq!(told, "command line: 1 export\n");
    let (status, told) = failure(
        folder.path(),
        &["serve", "--config", "c.toml", "memory(1M)"],
    );
    assert_eq!(status, Some(2), "{told}");
}

#[test]
fn other_machines_are_not_served_without_tls_unless_permitted() {
    let folder = folder();
    let far = "listen = [\"0.0.0.0:0\"]\n";
    write(
        folder.path(),
        &[far, &export("a", "disk = \"memory(1M)\"")].concat(),
    );
    let (status, told) = failure(folder.path(), &["serve", "--config", "c.toml"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("insecure = true"), "{told}");
    let (status, told) = failure(
        folder.path(),
        &["serve", "memory(1M)", "--listen", "0.0.0.0:0"],
    );
    assert_eq!(status, Some(1));
    assert!(told.contains("--insecure"), "{told}");
    let insecure = [
        far,
        "insecure = true\n",
        &export("a", "disk = \"memory(1M)\""),
    ]
    .concat();
    write(folder.path(), &insecure);
    let (_server, uri) = serving(folder.path());
    assert!(uri.starts_with("nbd://"), "{uri}");
}

#[test]
fn a_reload_adds_removes_and_changes_and_a_busy_client_of_another_export_does_not_notice() {
    let folder = folder();
    image(folder.path(), 1 << 20);
    let kept = export("kept", "disk = \"memory(1M)\"");
    let before = [
        HEAD,
        &kept,
        &export("gone", "disk = \"memory(64K)\""),
        &export("other", "disk = \"a.img\""),
    ];
    write(folder.path(), &before.concat());
    let (mut server, uri) = serving(folder.path());
    let mut kept_client = NbdSession::open(connect(&uri), "kept").expect("served");
    let mut gone = NbdSession::open(connect(&uri), "gone").expect("served");
    let mut other = NbdSession::open(connect(&uri), "other").expect("served");
    assert!(gone.read(512).is_some() && other.read(512).is_some());
    kept_client.write(&[7; 4096]).expect("it is written");

    // The disk that took a.img gives it to one of another name, and "other" becomes another disk.
    let after = [
        HEAD,
        &export("new", "disk = \"a.img\""),
        &kept,
        &export("other", "disk = \"memory(128K)\"\ndescription = \"text\""),
    ];
    let busy = std::thread::Builder::new().spawn(move || {
        for _ in 0..2000 {
            assert_eq!(kept_client.read(4096).expect("it goes on"), [7; 4096]);
        }
        kept_client
    });
    write(folder.path(), &after.concat());
    let told = answer(folder.path(), &["reload", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["added"], serde_json::json!(["new"]), "{told}");
    assert_eq!(told["removed"], serde_json::json!(["gone"]), "{told}");
    assert_eq!(told["replaced"], serde_json::json!(["other"]), "{told}");
    assert_eq!(told["warnings"], serde_json::json!([]), "{told}");
    let mut kept_client = busy.expect("a thread").join().expect("not a byte is wrong");
    assert!(kept_client.read(512).is_some());
    assert!(gone.read(512).is_none() && other.read(512).is_none());
    assert_eq!(size_of_export(connect(&uri), "gone"), None);
    assert_eq!(size_of_export(connect(&uri), "other"), Some(128 << 10));
    assert_eq!(size_of_export(connect(&uri), "new"), Some(1 << 20));
    assert_eq!(
        size_of_export(connect(&uri), ""),
        Some(1 << 20),
        "the first is the default"
    );

    // The signal does the same.
    write(folder.path(), &[HEAD, &kept].concat());
    server.signal(Signal::HUP);
    within_a_minute(|| size_of_export(connect(&uri), "new").is_none().then_some(()));
    assert!(kept_client.read(512).is_some());
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
}

/// The systemd unit has the control socket on its command line, and each reload reported that it would change at the
/// next start.
#[test]
fn a_socket_that_the_command_line_named_is_no_change_at_a_reload() {
    let folder = folder();
    write(
        folder.path(),
        &[HEAD, &export("a", "disk = \"memory(1M)\"")].concat(),
    );
    let socket = folder.path().join("socket");
    let socket = socket.to_str().expect("a path that is text");
    let serve = ["serve", "--config", "c.toml", "--control", socket];
    let (_server, _) = Server::start(outboard(folder.path(), &serve));
    let told = answer(folder.path(), &["reload", "--server", socket]);
    assert!(!told.contains("next start"), "{told}");
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let folder = folder();
    let good = [HEAD, &export("a", "disk = \"memory(1M)\"")].concat();
    write(folder.path(), &good);
    let (_server, uri) = serving(folder.path());
    let mut client = NbdSession::open(connect(&uri), "a").expect("served");
    let missing = export("b", "disk = \"nowhere.img\"");
    for (text, word) in [
        ("x = 1\n".to_owned(), "unknown key"),
        (HEAD.to_owned(), "[[export]]"),
        ([HEAD, &missing].concat(), "nowhere.img"),
        ([&good, missing.as_str()].concat(), "nowhere.img"),
        (
            [good.clone(), export("a", "disk = \"memory(2M)\"")].concat(),
            "second export",
        ),
    ] {
        write(folder.path(), &text);
        let (status, told) = failure(folder.path(), &["reload"]);
        assert_eq!(status, Some(1));
        assert!(
            told.contains("nothing was changed") && told.contains(word),
            "{told}"
        );
        assert!(client.read(512).is_some());
        assert_eq!(size_of_export(connect(&uri), "a"), Some(1 << 20));
    }
    std::fs::remove_file(folder.path().join("c.toml")).expect("it is there");
    assert!(failure(folder.path(), &["reload"]).1.contains("c.toml"));
    write(folder.path(), &good);
    assert_eq!(answer(folder.path(), &["reload"]), "nothing is different\n");
}

#[test]
fn an_export_for_others_is_not_there_and_new_rules_count_at_once() {
    let folder = folder();
    let with = |rule: &str| {
        [
            HEAD,
            &export("a", &format!("disk = \"memory(1M)\"\n{rule}")),
        ]
        .concat()
    };
    write(folder.path(), &with("allow = [\"127.0.0.10\"]"));
    let (_server, uri) = serving(folder.path());
    assert_eq!(
        size_of_export(connect(&uri), "a"),
        None,
        "127.0.0.1 is not 127.0.0.10"
    );
    write(folder.path(), &with("allow = [\"127.0.0.0/8\"]"));
    assert_eq!(answer(folder.path(), &["reload"]), "updated a\n");
    let mut client = NbdSession::open(connect(&uri), "a").expect("served");
    write(folder.path(), &with("allow = [\"unix\"]"));
    answer(folder.path(), &["reload"]);
    assert!(client.read(512).is_none());
}

#[test]
fn status_shows_exports_and_clients_and_a_client_can_be_ended() {
    let folder = folder();
    write(
        folder.path(),
        &[HEAD, &export("a", "disk = \"memory(1M)\"")].concat(),
    );
    let (server, uri) = serving(folder.path());
    let mut client = NbdSession::open(connect(&uri), "a").expect("served");
    assert!(client.read(4096).is_some());
    let status = || -> serde_json::Value {
        let told = answer(folder.path(), &["status", "--json"]);
        serde_json::from_str(&told).expect("JSON")
    };
    let told = within_a_minute(|| {
        let told = status();
        let export = &told["servers"][0]["figures"]["exports"][0];
        let requests = &export["figures"]["commands"][0]["requests"];
        (*requests == 1).then_some(told)
    });
    let shown = &told["servers"][0];
    assert_eq!(shown["process"], server.child.id());
    let export = &shown["figures"]["exports"][0];
    assert_eq!(export["figures"]["commands"][0]["command"], "read");
    assert_eq!(export["figures"]["commands"][0]["bytes"], 4096);
    let text = answer(folder.path(), &["status"]);
    assert!(
        text.contains("127.0.0.1:") && text.contains("4.0K"),
        "{text}"
    );
    assert!(answer(folder.path(), &["export", "list"]).contains("1M"));
    let id = export["clients"][0]["id"].to_string();
    assert!(answer(folder.path(), &["client", "list"]).contains("127.0.0.1:"));
    let said = answer(folder.path(), &["client", "disconnect", &id]);
    assert_eq!(said, format!("client {id} is being disconnected\n"));
    assert!(client.read(512).is_none());
    assert!(
        failure(folder.path(), &["client", "disconnect", &id])
            .1
            .contains("no client")
    );
}

#[test]
fn a_client_that_reconnects_sees_that_an_image_has_grown() {
    let folder = folder();
    image(folder.path(), 1 << 20);
    let (_server, line) = Server::start(outboard(
        folder.path(),
        &["serve", "a=a.img", "--listen", "127.0.0.1:0"],
    ));
    let mut client = NbdSession::open(connect(&line), "a").expect("served");
    let grown = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.path().join("a.img"));
    grown
        .and_then(|file| file.set_len(3 << 20))
        .expect("it grows");
    let said = answer(folder.path(), &["export", "resize", "a"]);
    assert!(said.starts_with("a: 3M, before 1M"), "{said}");
    assert_eq!(size_of_export(connect(&line), "a"), Some(3 << 20));
    assert!(client.read(512).is_some());
    let (status, told) = failure(folder.path(), &["export", "resize", "b"]);
    assert_eq!(
        (status, told.contains("no export")),
        (Some(1), true),
        "{told}"
    );
    let (_, told) = failure(folder.path(), &["reload"]);
    assert!(told.contains("no configuration"), "{told}");
}

#[test]
fn several_servers_are_distinguished_by_name() {
    let folder = folder();
    let start = |arguments: &[&str]| {
        let mut all = vec!["serve", "memory(1M)", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        Server::start(outboard(folder.path(), &all))
    };
    assert!(
        failure(folder.path(), &["export", "list"])
            .1
            .contains("no server runs here")
    );
    let (first, _) = start(&[]);
    let (_second, _) = start(&["--control", "run/second.sock"]);
    let (_, told) = failure(folder.path(), &["export", "list"]);
    assert!(
        told.contains("several servers") && told.contains("second"),
        "{told}"
    );
    answer(folder.path(), &["export", "list", "--server", "second"]);
    answer(
        folder.path(),
        &["export", "list", "--server", &first.child.id().to_string()],
    );
    answer(
        folder.path(),
        &["export", "list", "--server", "run/second.sock"],
    );
    let (_, told) = failure(folder.path(), &["export", "list", "--server", "third"]);
    assert!(told.contains("no server named `third`"), "{told}");
    let text = answer(folder.path(), &["status"]);
    assert!(
        text.contains("second (process ") && text.contains("serve-"),
        "{text}"
    );
}

#[test]
fn metrics_are_scraped_over_http() {
    let folder = folder();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let at = format!("127.0.0.1:{port}");
    let arguments = [
        "serve",
        "a=memory(1M)",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        &at,
    ];
    let (_server, _) = Server::start(outboard(folder.path(), &arguments));
    let text = scrape(&at);
    assert!(
        text.contains("outboard_export_size_bytes{export=\"a\"} 1048576"),
        "{text}"
    );
}

#[test]
fn lines_for_the_journal_have_a_level_and_no_time() {
    use std::os::linux::fs::MetadataExt as _;
    let folder = folder();
    let path = folder.path().join("log");
    let log = std::fs::File::create(&path).expect("a file");
    let found = log.metadata().expect("it is open");
    let mut command = outboard(folder.path(), &["serve", "nowhere.img", "--verbose"]);
    let stream = format!("{}:{}", found.st_dev(), found.st_ino());
    command.env("JOURNAL_STREAM", stream).stderr(log);
    assert!(!command.status().expect("the binary runs").success());
    let told = std::fs::read_to_string(&path).expect("a log");
    let first = told.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("<7>") && first.contains("engine started"),
        "{told}"
    );
}

#[test]
fn a_server_that_root_starts_becomes_another_user_for_good() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let folder = folder();
    write(
        folder.path(),
        &[
            HEAD,
            "user = \"nobody\"\n",
            &export("a", "disk = \"memory(1M)\""),
        ]
        .concat(),
    );
    let (server, uri) = serving(folder.path());
    assert_eq!(size_of_export(connect(&uri), "a"), Some(1 << 20));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()));
    let status = status.expect("it runs");
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let uids: Vec<&str> = uids.expect("a line").split_whitespace().collect();
    assert!(
        uids.len() == 4 && uids.iter().all(|&uid| uid != "0"),
        "{uids:?}"
    );
    let told = run(folder.path(), &["status"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("serves on"));
}

/// The units are taken as systemd takes them, where it is there to ask.
#[test]
fn the_units_are_what_systemd_understands() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let there = std::process::Command::new("systemd-analyze")
        .arg("--version")
        .output();
    if there.is_err() {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    // The program need not be installed for the units to be right.
    let folder = folder();
    for unit in ["outboard.service", "outboard.socket"] {
        let text = std::fs::read_to_string(units.join(unit)).expect("a unit");
        let program = format!("={} ", env!("CARGO_BIN_EXE_outboard"));
        let here = text.replace("=outboard ", &program);
        std::fs::write(folder.path().join(unit), here).expect("a file");
    }
    for unit in ["outboard.service", "outboard.socket"] {
        let output = std::process::Command::new("systemd-analyze")
            // The manual pages that they name are installed with a package.
            .args(["verify", "--man=no"])
            .arg(folder.path().join(unit))
            .output()
            .expect("it is installed");
        let told = String::from_utf8_lossy(&output.stderr);
        let ours: Vec<&str> = told
            .lines()
            .filter(|line| line.contains("outboard."))
            .collect();
        assert!(ours.is_empty(), "{told}");
    }
}

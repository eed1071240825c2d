//! Overlays of clients under a running server: a new golden image, the list, and the end of one.

use std::net::TcpStream;
use std::path::Path;

use rustix::process::Signal;

use super::serve::connect;
use super::sockets::NbdSession;
use super::{Server, answer, failure, outboard, within_a_minute};

const CONFIG: &str = "\
listen = [\"127.0.0.1:0\"]
[[export]]
name = \"root\"
disk = \"golden.img\"
overlay = \"per-client\"
overlay_directory = \"overlays\"
overlay_quota = \"16M\"
";

/// A golden image that begins with `byte`, put into its place in one step.
fn golden(folder: &Path, byte: u8) {
    let beside = folder.join("golden.new");
    std::fs::write(&beside, vec![byte; 1 << 20]).expect("an image");
    std::fs::rename(beside, folder.join("golden.img")).expect("its place");
}

fn client(uri: &str) -> NbdSession<TcpStream> {
    NbdSession::open(connect(uri), "root").expect("served")
}

fn first_byte(session: &mut NbdSession<TcpStream>) -> u8 {
    session.read(512).expect("it goes on")[0]
}

/// The output of `client overlays --json`.
fn overlays(folder: &Path) -> Vec<serde_json::Value> {
    let told = answer(folder, &["client", "overlays", "--json"]);
    serde_json::from_str(&told).expect("JSON")
}

/// Waits until no overlay is in use.
fn all_gone(folder: &Path) {
    within_a_minute(|| {
        let is_free = |overlay: &serde_json::Value| overlay["connections"] == 0;
        overlays(folder).iter().all(is_free).then_some(())
    });
}

#[test]
fn a_new_golden_image_is_for_new_clients_and_overlays_are_listed_and_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    golden(path, 1);
    std::fs::write(path.join("c.toml"), CONFIG).expect("a file");
    let (mut server, line) = Server::start(outboard(path, &["serve", "--config", "c.toml"]));
    let uri = line.split_whitespace().next().expect("a URI").to_owned();
    let mut old = client(&uri);
    old.write(&[7; 4096]).expect("it is written");

    let held = failure(path, &["client", "drop-overlay", "127.0.0.1"]);
    assert!(held.1.contains("--force"), "{held:?}");
    assert_eq!(answer(path, &["reload"]), "nothing is different\n");

    // The file of that name is another one now.
    golden(path, 2);
    let told = answer(path, &["reload"]);
    assert_eq!(told, "another image for new clients of root\n");
    assert_eq!(first_byte(&mut old), 7, "it does not notice");
    let mut more = client(&uri);
    assert_eq!(first_byte(&mut more), 7, "a client has one disk");
    for session in [&mut old, &mut more] {
        session.say_goodbye();
    }
    all_gone(path);
    let mut new = client(&uri);
    assert_eq!(first_byte(&mut new), 2);
    new.write(&[8; 4096]).expect("it is written");

    let listed = overlays(path);
    let is_older = |older: bool| move |o: &&serde_json::Value| o["is_older"] == older;
    let of_now = listed
        .iter()
        .find(is_older(false))
        .expect("over the image of now");
    assert_eq!(of_now["client"], "127.0.0.1");
    assert_eq!(of_now["connections"], 1);
    assert_eq!(of_now["quota"], 16 << 20);
    assert!(of_now["bytes"].as_u64() >= Some(4096), "{of_now}");
    assert!(listed.iter().any(|o| o["is_older"] == true), "{listed:?}");
    let status = answer(path, &["status"]);
    assert!(
        status.contains("overlays of clients: 2, 1 in use"),
        "{status}"
    );
    assert!(status.contains("1 over replaced images"), "{status}");

    let told = answer(path, &["client", "drop-overlay", "--older"]);
    assert!(
        told.starts_with("root: the overlay of 127.0.0.1 over golden.img"),
        "{told}"
    );
    assert_eq!(overlays(path).len(), 1);
    answer(path, &["client", "drop-overlay", "127.0.0.1", "--force"]);
    assert!(new.read(512).is_none(), "it was disconnected");
    assert_eq!(first_byte(&mut client(&uri)), 2, "it begins again");

    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn another_path_of_the_image_is_for_new_clients_and_a_lost_client_finds_what_it_had() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    golden(path, 1);
    std::fs::write(path.join("other.img"), vec![3; 2 << 20]).expect("an image");
    std::fs::write(path.join("c.toml"), CONFIG).expect("a file");
    let (_server, line) = Server::start(outboard(path, &["serve", "--config", "c.toml"]));
    let uri = line.split_whitespace().next().expect("a URI").to_owned();
    let mut lost = client(&uri);
    lost.write(&[7; 4096]).expect("it is written");
    let other = CONFIG.replace("golden.img", "other.img");
    std::fs::write(path.join("c.toml"), &other).expect("a file");
    answer(path, &["reload"]);
    // Its network went away for a moment; what it has mounted is the old disk.
    drop(lost);
    all_gone(path);
    let mut back = client(&uri);
    assert_eq!(first_byte(&mut back), 7);
    back.say_goodbye();
    all_gone(path);
    let mut later = client(&uri);
    assert_eq!(first_byte(&mut later), 3);

    // An image that cannot be opened leaves everything as it is.
    std::fs::write(
        path.join("c.toml"),
        CONFIG.replace("golden.img", "none.img"),
    )
    .expect("a file");
    let (status, told) = failure(path, &["reload"]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("none.img") && told.contains("nothing was changed"),
        "{told}"
    );
    assert_eq!(first_byte(&mut later), 3);
    let none = failure(path, &["client", "drop-overlay", "10.1.2.3"]);
    assert!(none.1.contains("10.1.2.3 has no such overlay"), "{none:?}");
}

//! A machine is lost, and another goes on from the half of its mirror that was elsewhere.
//!
//! ```text
//! primary:  array(a.img, nbd://backup/b)  under load       killed, and its machine with it
//! replacement:  array(nbd://backup/b, missing, run=true)    starts at once, takes the load
//!               + c.img                                     an empty disk, filled meanwhile
//! the old primary comes back: a.img                         is stale, and is not used
//! ```
//!
//! This is the session of `docs/guide/mirror.md`, with its commands.

use outboard_tests::image::{Folder, MIB};
use outboard_tests::mirror::{
    Load, assert_alike, create, refused, state_of, status, wait_until_whole,
};
use outboard_tests::said::{outboard, run};
use outboard_tests::server::Server;
use rustix::process::Signal;

const SIZE: u64 = 64 * MIB;

/// A command about the array of `server`.
#[track_caller]
fn array(server: &mut Server, what: &str, more: &[&str]) {
    let process = server.process().id().to_string();
    let args = [&["array", what, "m", "--server", &process], more].concat();
    run(&mut outboard(&args)).ok();
}

#[test]
fn a_machine_is_lost_and_nothing_that_was_flushed_is() {
    let folder = Folder::new();
    let a = folder.empty("a.img", SIZE);
    let b = folder.empty("b.img", SIZE);
    create(&[&a, &b], &[]);
    let backup = Server::start(&[&b]);
    let far = backup.uri("");
    let primary = Server::start(&[&format!("array({a}, {far})")]);
    let load = Load::start(&primary);
    load.wait_for(150);
    primary.kill();
    let first = load.cut_off();

    // Without its other half it starts only with `run=true`.
    let line = refused(&["serve", &format!("array({far})")]);
    assert!(line.contains("run=true"), "{line}");
    let mut replacement = Server::start(&[&format!("array({far}, missing, run=true)")]);
    assert_eq!(status(&mut replacement)["working"], 1);
    first.assert_in(&b);
    let load = Load::start(&replacement);
    load.wait_for(150);

    // An empty disk takes the place of the one that is lost, under load.
    let c = folder.empty("c.img", SIZE);
    array(&mut replacement, "add", &["--disk", &c]);
    wait_until_whole(&mut replacement);
    load.wait_for(150);
    let second = load.stop();
    assert_eq!(replacement.stop(Signal::TERM), Some(0));
    second.assert_in(&b);
    second.assert_in(&c);
    assert_alike(&b, &c);

    // The old primary's disk is back. It is older, and reported as such; the two others are the array.
    let line = refused(&["serve", &format!("array({a})")]);
    assert!(line.contains("run=true"), "{line}");
    let mut again = Server::start(&[&format!("array({a}, {far}, {c})")]);
    let told = status(&mut again);
    let states = [&far, &c, &a].map(|name| state_of(&told, name));
    assert_eq!(states, ["in_sync", "in_sync", "stale"], "{told:#}");
    assert_eq!(again.stop(Signal::TERM), Some(0));
    second.assert_in(&b);
    assert_alike(&b, &c);
}

#[test]
fn a_file_that_failed_is_taken_back_by_the_server_that_had_it() {
    let folder = Folder::new();
    let [a, b] = ["a.img", "b.img"].map(|name| folder.empty(name, SIZE));
    create(&[&a, &b], &[]);
    let mut server = Server::start(&[&format!("array({a}, {b})")]);
    let load = Load::start(&server);
    for how in ["re-add", "add"] {
        array(&mut server, "fail", &["--member", &b]);
        load.wait_for(20);
        array(&mut server, "remove", &["--member", &b]);
        array(&mut server, how, &["--disk", &b]);
        wait_until_whole(&mut server);
        load.wait_for(20);
    }
    let kept = load.stop();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    kept.assert_in(&b);
    assert_alike(&a, &b);
}

#[test]
fn halves_that_were_both_written_alone_are_refused_with_both_stories() {
    let folder = Folder::new();
    let a = folder.empty("a.img", SIZE);
    let b = folder.empty("b.img", SIZE);
    create(&[&a, &b], &[]);
    let backup = Server::start(&[&b]);
    let far = backup.uri("");
    for half in [a.as_str(), &far] {
        let server = Server::start(&[&format!("array({half}, missing, run=true)")]);
        let load = Load::start(&server);
        load.wait_for(100);
        load.stop();
        assert_eq!(server.stop(Signal::TERM), Some(0));
    }
    let both = format!("array({a}, {far})");
    let line = refused(&["serve", &both]);
    assert!(line.contains(&a) && line.contains(&far), "{line}");
    assert!(line.contains("prefer"), "{line}");
    let preferred = format!("array({a}, {far}, prefer='{far}')");
    let mut server = Server::start(&[&preferred]);
    let load = Load::start(&server);
    wait_until_whole(&mut server);
    let kept = load.stop();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    assert_eq!(backup.stop(Signal::TERM), Some(0));
    kept.assert_in(&a);
    assert_alike(&a, &b);
}

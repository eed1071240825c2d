//! The life of a RAID 5 of four files under a server that is written all the time: the first resync, a member that fails
//! and is taken back, another one in its place, and a server that is killed while that is rebuilt.

use outboard_tests::image::{Folder, MIB};
use outboard_tests::mirror::{
    Kept, Load, create_level, refused, state_of, status, wait_until, wait_until_whole,
};
use outboard_tests::said::{outboard, run};
use outboard_tests::server::Server;
use rustix::process::Signal;

/// Three of these hold all records of a load.
const SIZE: u64 = 24 * MIB;
const NAMES: [&str; 4] = ["a.img", "b.img", "c.img", "d.img"];

/// The disk expression of these members.
fn expression(members: &[&str]) -> String {
    format!("array({})", members.join(", "))
}

/// A command about the array of `server`; what it prints.
#[track_caller]
fn array(server: &mut Server, what: &str, more: &[&str]) -> String {
    let process = server.process().id().to_string();
    let args = [&["array", what, "m", "--server", &process], more].concat();
    run(&mut outboard(&args)).ok()
}

/// A scrub that finds nothing.
#[track_caller]
fn assert_scrubbed(server: &mut Server) {
    let told = array(server, "scrub", &["--wait", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let scrubbed = &told["scrubbed"];
    assert_eq!(
        (&scrubbed["finished"], &scrubbed["mismatches"]),
        (&true.into(), &0.into()),
        "{told:#}"
    );
}

/// Fails if the array of these, without any one of them, lacks something.
#[track_caller]
fn assert_held(folder: &Folder, members: &[&str], kept: &Kept) {
    for without in 0..members.len() {
        let mut left = members.to_vec();
        left.remove(without);
        left.push("run=true");
        let copy = folder.at("copy");
        run(&mut outboard(&[
            "copy",
            "--force",
            &expression(&left),
            &copy,
        ]))
        .ok();
        kept.assert_in_copy(&copy);
    }
}

#[test]
fn a_member_fails_and_is_taken_back_and_another_takes_its_place_while_it_is_written() {
    let folder = Folder::new();
    let [a, b, c, d] = NAMES.map(|name| folder.empty(name, SIZE));
    let e = folder.empty("e.img", SIZE);
    let members = [a.as_str(), &b, &c, &d];
    create_level("5", &members, &["--chunk", "64K"]);
    let mut server = Server::start(&[&expression(&members)]);
    let load = Load::start(&server);
    load.wait_for(50);
    wait_until_whole(&mut server);
    for how in ["re-add", "add"] {
        array(&mut server, "fail", &["--member", &b]);
        assert_eq!(status(&mut server)["working"], 3);
        load.wait_for(50);
        array(&mut server, "remove", &["--member", &b]);
        array(&mut server, how, &["--disk", &b]);
        wait_until_whole(&mut server);
        load.wait_for(20);
    }
    array(&mut server, "fail", &["--member", &b]);
    load.wait_for(50);
    array(&mut server, "add", &["--disk", &e]);
    wait_until_whole(&mut server);
    load.wait_for(20);
    let told = status(&mut server);
    let states = [&a, &b, &c, &d, &e].map(|name| state_of(&told, name));
    assert_eq!(
        states,
        ["in_sync", "failed", "in_sync", "in_sync", "in_sync"]
    );
    let kept = load.stop();
    assert_scrubbed(&mut server);
    assert_eq!(server.stop(Signal::TERM), Some(0));
    assert_held(&folder, &[&a, &e, &c, &d], &kept);
}

/// A server of a RAID 5 that lacks a member, and is clean.
fn degraded(folder: &Folder) -> Server {
    let [a, b, c, d] = NAMES.map(|name| folder.empty(name, SIZE));
    let members = [a.as_str(), &b, &c, &d];
    create_level("5", &members, &["--assume-clean", "--chunk", "64K"]);
    let mut server = Server::start(&[&expression(&members)]);
    let load = Load::start(&server);
    load.wait_for(50);
    array(&mut server, "fail", &["--member", &b]);
    array(&mut server, "remove", &["--member", &b]);
    load.wait_for(100);
    load.stop();
    wait_until(&mut server, "clean", |status| status["clean"] == true);
    server
}

/// Gives its array a new member, which is rebuilt so slowly that it can be met in the middle. Writes are as slow meanwhile.
fn begin_rebuild(folder: &Folder, server: &mut Server) {
    let e = folder.empty("e.img", SIZE);
    let slow = format!("throttle({e}, write-bytes=1M/s)");
    array(server, "add", &["--disk", &slow]);
}

/// Whether a rebuild is under way, and some of it is written down.
fn is_in_the_middle(status: &serde_json::Value) -> bool {
    let done = status["sync"]["done"].as_u64().unwrap_or(0);
    status["sync"]["kind"] == "recovery" && (6 * MIB..21 * MIB).contains(&done)
}

#[test]
fn a_rebuild_goes_on_where_it_was_after_the_server_was_killed() {
    let folder = Folder::new();
    let mut server = degraded(&folder);
    begin_rebuild(&folder, &mut server);
    wait_until(&mut server, "in the middle", is_in_the_middle);
    server.kill();
    let [a, c, d, e] = ["a.img", "c.img", "d.img", "e.img"].map(|name| folder.at(name));
    let members = [a.as_str(), &e, &c, &d];
    // Before anything is done: it is known how far it came.
    let told = run(&mut outboard(
        &[&["array", "status", "--json"], &members[..]].concat(),
    ))
    .ok();
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(state_of(&told, &e), "rebuilding", "{told:#}");
    let member = told["members"].as_array().into_iter().flatten();
    let to = member
        .filter_map(|member| member["rebuilt_to"].as_u64())
        .next();
    assert!(to.is_some_and(|to| to >= MIB), "{told:#}");
    let mut server = Server::start(&[&expression(&members)]);
    let load = Load::start(&server);
    wait_until_whole(&mut server);
    // Each place is written, and flushed.
    load.wait_for(60);
    let kept = load.stop();
    assert_scrubbed(&mut server);
    assert_eq!(server.stop(Signal::TERM), Some(0));
    assert_held(&folder, &members, &kept);
}

#[test]
fn an_array_that_was_written_when_the_server_was_killed_in_a_rebuild_is_refused_and_can_be_read() {
    let folder = Folder::new();
    let mut server = degraded(&folder);
    let load = Load::start(&server);
    load.wait_for(60);
    begin_rebuild(&folder, &mut server);
    wait_until(&mut server, "in the middle", is_in_the_middle);
    load.wait_for(1);
    server.kill();
    let mut kept = load.cut_off();
    let members = ["a.img", "e.img", "c.img", "d.img"].map(|name| folder.at(name));
    let mut members: Vec<&str> = members.iter().map(String::as_str).collect();
    let line = refused(&["serve", &expression(&members)]);
    assert!(line.contains("was being written when it stopped"), "{line}");
    members.push("force-dirty-degraded=true");
    let copy = folder.at("copy");
    run(&mut outboard(&["copy", &expression(&members), &copy])).ok();
    // The last request may have met the end between data and parity; no other record is in its row.
    let last = kept.sent.iter().max_by_key(|(_, number)| **number);
    let last = last.map(|(place, _)| *place).expect("something was sent");
    kept.flushed.remove(&last);
    kept.assert_in_copy(&copy);
}

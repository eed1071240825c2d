//! Disks that something else than the doctor slows down: another client of the same server, the remote half of a mirror,
//! one disk of a stripe; and near neighbours, where none of them is named.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB};
use outboard_tests::mirror;
use outboard_tests::server::{By, LIMIT, Server};
use serde_json::Value;
use testkit::proc::Process;
use testkit::requires;

use super::files::fill;
use super::network::{Network, can_make_networks};
use super::servers::start;
use super::{
    AnswerGrade, SECONDS, SECONDS_MAX, alone, diagnoses_until, doctor, doctor_in, limiter, names,
    runs_long_tests,
};

/// Another client, which reads an export all the time.
fn reader(uri: &str) -> Process {
    let mut fio = Command::new("fio");
    fio.args(["--name=other", "--ioengine=nbd", "--rw=read", "--bs=128k"]);
    fio.args(["--iodepth=16", "--time_based", "--runtime=3600", "--thread"]);
    fio.arg(format!("--uri={uri}")).stdin(Stdio::null());
    let process = Process::start(&mut fio).expect("fio");
    // It opens the export before it reads.
    std::thread::sleep(Duration::from_secs(2));
    process
}

fn can_read_meanwhile() -> bool {
    let engines = Command::new("fio").arg("--enghelp").output();
    let has_nbd = engines.is_ok_and(|found| {
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        text.split_whitespace().any(|word| word == "nbd")
    });
    if !has_nbd {
        eprintln!("skipped: fio has no engine for NBD");
    }
    has_nbd
}

fn cause(verdict: &Value) -> &str {
    verdict["verdict"]["cause"]["kind"]
        .as_str()
        .unwrap_or_default()
}

fn rate(verdict: &Value) -> f64 {
    verdict["examination"]["rate"].as_f64().expect("a rate")
}

fn predicted(verdict: &Value) -> f64 {
    let next = verdict["verdict"]["next"]["rate"].as_f64();
    next.unwrap_or_else(|| panic!("nothing is predicted: {verdict:#}"))
}

/// Once the advice is applied, the rate is what `before` predicts, within 15 %, in an answer that `grade` calls right.
#[track_caller]
pub(super) fn assert_predicted(
    before: &Value,
    grade: impl Fn(&Value) -> AnswerGrade,
    applied: impl FnMut(u32) -> Command,
) {
    let wanted = predicted(before);
    let is_reached = |one: &Value| (rate(one) / wanted - 1.0).abs() <= 0.15;
    let right = |all: &Value| grade(&all[0]).max(AnswerGrade::of(is_reached(&all[0])));
    if let Err(wrong) = diagnoses_until((SECONDS, SECONDS_MAX), right, applied) {
        let found = wrong.iter().map(|all| (rate(&all[0]), limiter(&all[0])));
        let found: Vec<_> = found.collect();
        panic!("{wanted} was predicted, and not {found:?}: {before:#}");
    }
}

/// Of a verdict, where the disk limits for the reason `wanted`, or for none that is known if that is empty. A verdict without
/// a reason is not wrong, but says less than is known.
fn grade_of_cause(verdict: &Value, wanted: &str) -> AnswerGrade {
    let found = cause(verdict);
    let of_cause = match found.is_empty() {
        _ if found == wanted => AnswerGrade::Right,
        true => AnswerGrade::Undecided,
        false => AnswerGrade::Wrong,
    };
    AnswerGrade::of_parts(verdict, &["disk"]).max(of_cause)
}

/// Runs the doctor until the cause is this one.
#[track_caller]
fn names_cause(wanted: &str, command: impl FnMut(u32) -> Command) -> Value {
    let right = |all: &Value| grade_of_cause(&all[0], wanted);
    let found = diagnoses_until((SECONDS, SECONDS_MAX), right, command);
    let all = found.unwrap_or_else(|wrong| panic!("{wanted:?} was not named but: {wrong:#?}"));
    all[0].clone()
}

#[test]
fn another_client_is_named_and_what_is_there_without_it() {
    if !can_read_meanwhile() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let server = Server::start(&["d=throttle(memory(64M), read-bytes=20M/s)"]);
    let uri = server.uri_by(By::Unix, "d");
    let other = reader(&uri);
    let command = |seconds| doctor(&folder, seconds, &[&uri]);
    let found = names_cause("other_clients", command);
    let sentence = found["verdict"]["sentence"].to_string();
    let named = format!("process {} (fio)", other.id());
    assert!(sentence.contains(&named), "{sentence}");
    drop(other);
    assert_predicted(&found, |_| AnswerGrade::Right, command);
}

#[test]
fn another_client_is_named_by_the_agent_of_a_server_elsewhere() {
    if !runs_long_tests() || !can_read_meanwhile() || !can_make_networks() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    let disks = ["d=throttle(memory(64M), read-bytes=6M/s)", "n=null(1G)"];
    let (_server, address) = network.serve(&folder, &disks);
    let (_agent, agent) = network.agent(&folder, &[]);
    let uri = format!("nbd://{address}/d");
    let _other = reader(&uri);
    let token = folder.at("token");
    let found = names_cause("other_clients", |seconds| {
        let args = [&uri, "--agent", &agent, "--agent-insecure"];
        let mut command = doctor(&folder, seconds * 2, &args);
        command.args(["--agent-token-file", &token]);
        command
    });
    let sentence = found["verdict"]["sentence"].to_string();
    assert!(
        sentence.contains(&format!("{}.1:", network.subnet)),
        "{sentence}"
    );
}

/// What is named as the other clients, of reads or of writes.
fn others(verdict: &Value) -> Vec<String> {
    let clients = verdict["verdict"]["cause"]["clients"].as_array();
    let names = clients.into_iter().flatten();
    let names = names.filter_map(|client| client["name"].as_str());
    names.map(str::to_owned).collect()
}

/// A mount is a client of its server, too. Its own connections were not distinguished from others over TCP, so that no other
/// client was named to the user of a mount.
#[track_caller]
fn other_client_of_mount_is_named(by: By) {
    if !runs_long_tests() || !can_read_meanwhile() {
        return;
    }
    let Some(world) = World::new() else {
        return;
    };
    let _alone = alone();
    let folder = Folder::new();
    // Its control socket is where the doctor looks for attachments, too. Reads and writes share the rate.
    let disk = "d=throttle(memory(192M), bytes=20M/s)";
    let (listen, port_file) = (format!("unix:{}", folder.at("socket")), folder.at("port"));
    let mut serve = world.outboard(&["serve", disk, "--listen", &listen]);
    serve.args(["--listen", "127.0.0.1:0", "--port-file", &port_file]);
    let (mut server, unix) = start(&folder, serve, "d");
    let port = server.wait_for_file(Path::new(&port_file), LIMIT);
    let port = port.expect("it listens");
    let uri = match by {
        By::Unix => unix,
        _ => format!("nbd://127.0.0.1:{port}/d"),
    };
    let point = world.mount_point();
    world.attachment(&uri).on(&point).ext4().device();
    fill(&Path::new(&point).join("film"), 32);
    let run = |grade: &dyn Fn(&Value) -> AnswerGrade| {
        // The other client leaves it little to write its test file with.
        let found = diagnoses_until((SECONDS * 4, SECONDS_MAX), grade, |seconds| {
            doctor_in(&world, &folder, seconds, &[&point, "--write"])
        });
        drop(found.unwrap_or_else(|wrong| panic!("{wrong:#?}")));
    };
    let both = |all: &Value, grade: &dyn Fn(&Value) -> AnswerGrade| {
        let of_one = |at: usize| AnswerGrade::of_parts(&all[at], &["disk"]).max(grade(&all[at]));
        of_one(0).max(of_one(1))
    };
    // Its own connections are not another client.
    run(&|all| both(all, &|one| grade_of_cause(one, "")));
    let other = reader(&uri);
    let named = match by {
        By::Unix => format!("process {} (fio)", other.id()),
        _ => "127.0.0.1".to_owned(),
    };
    run(&|all| {
        both(all, &|one| match others(one).as_slice() {
            [] => grade_of_cause(one, "other_clients"),
            [only] if only.starts_with(&named) => AnswerGrade::Right,
            _ => AnswerGrade::Wrong,
        })
    });
    drop(other);
    world.run(&["detach", &point]).ok();
}

#[test]
fn another_client_of_a_mounts_server_is_named_for_reads_and_writes() {
    other_client_of_mount_is_named(By::Unix);
}

#[test]
fn another_client_of_a_mounts_server_is_named_over_tcp() {
    other_client_of_mount_is_named(By::Tcp);
}

/// The other client reads another disk of the same server.
#[test]
fn another_client_of_another_disk_is_not_named() {
    if !runs_long_tests() || !can_read_meanwhile() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let disk = |name: &str| format!("{name}=throttle(memory(64M), read-bytes=20M/s)");
    let server = Server::start(&[&disk("d"), &disk("e")]);
    let _other = reader(&server.uri_by(By::Unix, "e"));
    let uri = server.uri_by(By::Unix, "d");
    names_cause("", |seconds| doctor(&folder, seconds, &[&uri]));
}

const STRIPE: &str =
    "stripe(throttle(memory(64M), read-bytes=40M/s), throttle(memory(64M), read-bytes=8M/s))";

#[test]
fn the_slow_disk_of_a_stripe_is_named_and_what_a_faster_one_brings() {
    let _alone = alone();
    let folder = Folder::new();
    let found = names_cause("slow_member", |seconds| doctor(&folder, seconds, &[STRIPE]));
    let sentence = found["verdict"]["sentence"].to_string();
    assert!(sentence.contains("disk 2 of the stripe"), "{sentence}");
    let replaced = STRIPE.replace("8M/s", "40M/s");
    assert_predicted(
        &found,
        |_| AnswerGrade::Right,
        |seconds| doctor(&folder, seconds, &[&replaced]),
    );
}

#[test]
fn the_slow_disk_of_a_servers_stripe_is_named() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let server = Server::start(&[&format!("d={STRIPE}")]);
    let uri = server.uri_by(By::Tcp, "d");
    names_cause("slow_member", |seconds| doctor(&folder, seconds, &[&uri]));
    // Disks of one rate.
    let server = Server::start(&[&format!("d={}", STRIPE.replace("40M/s", "9M/s"))]);
    let uri = server.uri_by(By::Tcp, "d");
    names_cause("", |seconds| doctor(&folder, seconds, &[&uri]));
}

/// A mirror of a disk of this machine and one of another server that takes so much, mounted; the verdicts on reads and writes.
#[track_caller]
fn mirror_verdicts(remote: &str, grade: impl Fn(&Value) -> AnswerGrade) -> Option<Value> {
    let world = World::new()?;
    if !requires::all(&[requires::command("fio")]) {
        return None;
    }
    let folder = Folder::new();
    let image = folder.empty("a.img", 192 * MIB);
    let far = Server::start(&[&format!("b={remote}")]);
    let half = far.uri_by(By::Unix, "b");
    mirror::create(&[&image, &half], &[]);
    // Its control socket is where the doctor looks for attachments, too.
    let disk = format!("m=array({image}, {half})");
    let listen = format!("unix:{}", folder.at("socket"));
    let serve = world.outboard(&["serve", &disk, "--listen", &listen]);
    let (_server, uri) = start(&folder, serve, "m");
    let point = world.mount_point();
    world.attachment(&uri).on(&point).ext4().device();
    let found = diagnoses_until((SECONDS, SECONDS_MAX), grade, |seconds| {
        doctor_in(&world, &folder, seconds, &[&point, "--write"])
    });
    world.run(&["detach", &point]).ok();
    Some(found.unwrap_or_else(|wrong| panic!("{wrong:#?}")))
}

#[test]
fn the_slow_remote_half_of_a_mirror_is_named_for_writes() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let remote = "throttle(memory(192M), write-bytes=10M/s)";
    let right = |all: &Value| match cause(&all[0]) {
        "slow_member" => AnswerGrade::Wrong,
        _ => grade_of_cause(&all[1], "slow_member"),
    };
    let Some(all) = mirror_verdicts(remote, right) else {
        return;
    };
    let sentence = all[1]["verdict"]["sentence"].to_string();
    assert!(sentence.contains("the remote member"), "{sentence}");
    assert_eq!(limiter(&all[1]), ["disk"]);
}

/// The half that is far is slow for reads, which it does not get, and as fast as the other one for writes.
#[test]
fn a_remote_half_that_only_reads_slowly_is_not_named() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let remote = "throttle(memory(192M), read-bytes=10M/s)";
    let right = |all: &Value| {
        let slow = |index: usize| cause(&all[index]) == "slow_member";
        // The server reports its members.
        let members = &all[1]["examination"]["served"]["members"];
        let has_both = members.as_array().is_some_and(|all| all.len() == 2);
        match slow(0) || slow(1) {
            true => AnswerGrade::Wrong,
            false => AnswerGrade::of(has_both),
        }
    };
    mirror_verdicts(remote, right);
}

/// Each request takes its time for itself, so that another client takes nothing from the doctor.
#[test]
fn a_queue_is_not_taken_for_another_client() {
    if !runs_long_tests() || !can_read_meanwhile() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let server = Server::start(&["late=delay(memory(64M), read=10ms)"]);
    let uri = server.uri_by(By::Unix, "late");
    let _other = reader(&uri);
    let args = [uri.as_str(), "--depth", "1"];
    names(&["queue"], |seconds| doctor(&folder, seconds, &args));
}

//! A volume with a local journal, on versitygw behind a proxy that delays requests as a store on the Internet, and in a folder.
//!
//! # Fault model
//!
//! The server ends by `kill -9` at any moment, alone or while the store does not run; requests of the proxy in flight may reach the store later.
//! The machine is lost with its journal: that is moved away.
//!
//! # Invariants
//!
//! * With the journal a block is what it was at the last flush that was acknowledged, or what a later write made it, whole.
//! * Without it the volume is not opened for writing. When the journal is given up, the volume is what one commit made it, whole.
//!
//! `OUTBOARD_WORLD…` chooses seeds, as in `kills.rs`.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use block::{BlockDevice as _, Range, WriteFlags};
use engine::clock;
use fastrand::Rng;
use futures_util::future::{Either, select};
use rustix::process::Signal;
use testkit::s3::{FaultyProxy, RequestFaults, S3Make, S3Server};
use testkit::{WorldSeeds, gather, requires, single};

use super::kills::{RunningServer, Writer, connect};
use super::{LIMIT, Place, on_slow_s3};

/// Rounds in `cargo xtask ci`.
const ROUNDS: u64 = 6;
/// How long a server lives under changes, and then without its store, milliseconds.
const LIFE_MS: std::ops::Range<u64> = 20..1500;
/// Bytes of a write that is in one commit.
const WHOLE: u64 = 64 * 4096;

/// The volume with its journal, as a disk.
fn journaled(place: &Place<'_>, volume: &str) -> String {
    let journal = place.folder.join("journal");
    format!(
        "bucket({volume}, journal={}, journal-size=4M, durability=local)",
        journal.display()
    )
}

fn serve(place: &Place<'_>, disk: &str, name: &str) -> RunningServer {
    let (process, uri) = place.serve(disk, name);
    RunningServer { process, uri }
}

fn stop(mut server: RunningServer) {
    let signalled = server.process.signal(Signal::TERM);
    signalled.expect("it runs until it is stopped");
    let ended = server.process.wait(LIMIT).expect("it stops");
    assert!(ended.success(), "{}", server.process.stderr());
}

/// A server that ends under changes and flushes, in a loop.
async fn kills(place: &Place<'_>, store: &mut S3Server, (rounds, seed): (u64, u64)) -> u64 {
    let volume = format!("{}/lab/journal", place.prefix);
    let disk = journaled(place, &volume);
    let mut rng = Rng::with_seed(!seed);
    let mut writer = Writer::new(seed);
    for nth in 0..rounds {
        let mut server = serve(place, &disk, &format!("server-{nth}"));
        let client = connect(&server.uri).await.expect("the server listens");
        writer.verify(&client).await;
        let is_outage = rng.bool();
        let ending = async {
            clock::sleep(Duration::from_millis(rng.u64(LIFE_MS))).await;
            if is_outage {
                store.kill();
                clock::sleep(Duration::from_millis(rng.u64(LIFE_MS))).await;
            }
            server.kill();
        };
        let error = {
            let work = pin!(writer.work(&client));
            match select(work, pin!(ending)).await {
                Either::Left((error, _)) => panic!("{error}, and nothing had happened"),
                Either::Right(((), work)) => work.await,
            }
        };
        eprintln!("round {nth} of {rounds}, seed {seed}: {error}");
        client.close().await;
        if is_outage {
            store.restart();
        }
    }
    let server = serve(place, &disk, "last");
    let client = connect(&server.uri).await.expect("the server listens");
    writer.verify(&client).await;
    client.close().await;
    stop(server);
    let check = place.done(&["bucket", "check", &volume, "--data"]);
    assert!(check.contains("no problem found"), "{check}");
    // Behind a clean end the volume needs no journal.
    let server = serve(place, &volume, "plain");
    let client = connect(&server.uri).await.expect("the server listens");
    writer.verify(&client).await;
    client.close().await;
    stop(server);
    writer.flushes
}

#[test]
fn what_a_flush_acknowledged_survives_kills_of_a_server_with_a_journal() {
    if !requires::all(&[S3Make::Versity.is_there()]) {
        return;
    }
    let seeds = WorldSeeds::from_env();
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = S3Server::start(S3Make::Versity, folder.path());
    let proxy = FaultyProxy::start(store.port(), RequestFaults::DELAYS, seeds.from);
    let place = Place::s3(folder.path(), proxy.port());
    let volume = format!("{}/lab/journal", place.prefix);
    place.done(&["bucket", "create", &volume, "8M"]);
    let rounds = (seeds.count.unwrap_or(ROUNDS), seeds.from);
    let play = kills(&place, &mut store, rounds);
    let flushes = engine::run(&engine::Config::default(), |_| play).expect("an engine");
    assert!(flushes > 0, "nothing was tried");
    eprintln!("{} rounds: {flushes} flushes", rounds.0);
}

/// Writes the same tag everywhere, one after the other, until the server is killed. The last tag that a flush acknowledged.
async fn write_whole(server: &mut RunningServer, first: u8, life: Duration) -> u8 {
    let client = connect(&server.uri).await.expect("the server listens");
    let mut flushed = 0;
    {
        let work = async {
            for tag in first..=u8::MAX {
                let data = vec![tag; usize::try_from(WHOLE).expect("256 KiB")];
                let range = Range::new(0, WHOLE);
                let written = client.write(range, single(data), WriteFlags::empty()).await;
                if written.is_err() || client.flush().await.is_err() {
                    return;
                }
                flushed = tag;
            }
        };
        let ending = async {
            clock::sleep(life).await;
            server.kill();
        };
        futures_util::future::join(work, ending).await;
    }
    client.close().await;
    flushed
}

/// The tag of a disk that has one.
async fn read_whole(uri: &str) -> u8 {
    let client = connect(uri).await.expect("the server listens");
    let read = client.read(Range::new(0, WHOLE)).await;
    let bytes = gather(&read.expect("a server that runs answers"));
    client.close().await;
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn state");
    bytes[0]
}

#[test]
fn a_machine_that_is_lost_with_its_journal() {
    on_slow_s3(|place| {
        let volume = format!("{}/lab/lost", place.prefix);
        let volume = volume.as_str();
        place.done(&["bucket", "create", volume, "8M"]);
        let disk = journaled(&place, volume);
        let mut server = serve(&place, &disk, "first");
        let life = Duration::from_millis(1200);
        let play = write_whole(&mut server, 1, life);
        let flushed = engine::run(&engine::Config::default(), |_| play).expect("an engine");
        assert!(flushed > 0, "nothing was tried");
        let journal = place.folder.join("journal");
        let path = journal.display().to_string();
        let lost = place.folder.join("lost");
        std::fs::rename(&journal, &lost).expect("it is moved");

        // Found by name, with the journal's path, with an empty journal and without one.
        write_image(place.folder, "image");
        place.fails(&["copy", "image", volume, "--force"], &path);
        place.fails(&["serve", volume], "bucket journal discard");
        place.fails(&["serve", &disk], "another open journal");
        let status = place.json(&["--json", "bucket", "status", volume]);
        assert_eq!(status["journal"]["path"], path.as_str());
        let text = place.done(&["bucket", "status", volume]);
        assert!(text.contains("open journal"), "{text}");
        place.fails(&["bucket", "journal", "discard", volume], "--force");
        let given_up = place.done(&["bucket", "journal", "discard", volume, "--force"]);
        assert!(given_up.contains(&path), "{given_up}");
        let again = ["bucket", "journal", "discard", volume, "--force"];
        place.fails(&again, "has no open journal");

        let server = serve(&place, volume, "second");
        let play = read_whole(&server.uri);
        let found = engine::run(&engine::Config::default(), |_| play).expect("an engine");
        // What was under way is as good as what was flushed.
        assert!(found <= flushed + 1, "{found} of {flushed}");
        stop(server);
        // The journal was evidence, and stays so.
        let before = std::fs::read(&lost).expect("a file");
        std::fs::rename(&lost, &journal).expect("it is moved");
        place.fails(&["serve", &disk], "it was discarded");
        assert!(std::fs::read(&journal).expect("a file") == before);
    });
}

#[test]
fn a_journal_with_other_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    place.done(&["bucket", "create", &volume, "8M"]);
    let refuses = |options: &str, with: &str| {
        place.fails(&["serve", &format!("bucket({volume}, {options})")], with);
    };
    refuses("journal=j", "durability=local");
    refuses("journal=j, durability=store", "durability=local");
    refuses("durability=local", "write journal=FILE");
    refuses("journal-size=4M", "write journal=FILE");
    refuses(
        "journal=j, durability=local, read-only=true",
        "that is written",
    );
    assert!(!folder.path().join("j").exists());
    let disk = journaled(&place, &volume);
    place.fails(&["serve", &disk, "--read-only"], "only read");
    place.fails(&["serve", &format!("root={disk}"), "--standby"], "standby");
    write_image(folder.path(), "journal");
    place.fails(&["serve", &disk], "no journal of a volume, and not empty");
    assert!(
        std::fs::read(folder.path().join("journal"))
            .expect("a file")
            .iter()
            .all(|byte| *byte == 7)
    );
    std::fs::remove_file(folder.path().join("journal")).expect("it is removed");

    let server = serve(&place, &disk, "socket");
    let found = &place.servers()[0]["bucket_volumes"][0]["journal"];
    assert_eq!(found["unstored"], 0);
    assert_eq!(found["size"], (4 << 20) - 4096);
    let status = place.done(&["status"]);
    assert!(status.contains("journal: 0 B of"), "{status}");
    stop(server);
    let status = place.json(&["--json", "bucket", "status", &volume]);
    assert_eq!(status["journal"], serde_json::Value::Null);
}

fn write_image(folder: &Path, name: &str) {
    std::fs::write(folder.join(name), vec![7; 4 << 20]).expect("it is written");
}

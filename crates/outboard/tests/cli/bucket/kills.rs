//! A server of a volume that ends at any moment, in a loop, under writes and flushes, on versitygw behind a proxy of which one request in
//! ten fails.
//!
//! # Fault model
//!
//! Each round has one server, which ends by `kill -9`: alone, with the store, some time after the store was killed and started again,
//! behind another server that was killed while it opened the volume, or after another server took the volume over. Requests of the proxy
//! that are in flight may reach the store later. Collections run next to the rounds (`collector.rs`).
//!
//! # Invariants
//!
//! * A block is what it was at the last flush that was acknowledged, or what a later write made it, whole.
//! * No request fails before the server is killed or loses the volume, and each fails from then on.
//! * `bucket check` finds no problem after any round, and no orphan where the volume was closed and collected: each 20 rounds, and last.
//!
//! `cargo xtask soak bucket --rounds N --seed SEED` plays more rounds. What is done follows from the seed; how the machine interleaves it does
//! not.

use std::ops;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice as _, IoError, IoFuture, Range, WriteFlags};
use engine::clock;
use fastrand::Rng;
use futures_util::future::{Either, join_all, select};
use nbd::client::{Client, ClientConfig};
use rustix::process::Signal;
use testkit::proc::{Process, WaitError};
use testkit::s3::{FaultyProxy, RequestFaults, S3Make, S3Server};
use testkit::{WorldSeeds, gather, requires, single};

use super::collector::Collector;
use super::{LIMIT, Place};

/// Rounds in `cargo xtask ci`.
const ROUNDS: u64 = 6;
/// Rounds between two closes of the volume.
const CLOSE_EVERY: u64 = 20;
const BLOCK: usize = 4096;
const BLOCKS: usize = 2048;
/// Blocks of one read.
const READ_BLOCKS: usize = 64;
/// Changes at once and blocks of each, in a round of commits that are objects, and in one of commits in the log of the index.
const LARGE_CHANGES_MAX: (usize, usize) = (8, 48);
const SMALL_CHANGES_MAX: (usize, usize) = (3, 4);
/// How long a server lives under changes before something happens, milliseconds.
const LIFE_MS: ops::Range<u64> = 20..1500;
/// How long the store does not run, milliseconds.
const OUTAGE_MS: ops::Range<u64> = 0..1000;
/// How long a server lives that is killed while it opens the volume, milliseconds.
const OPENING_MS: ops::Range<u64> = 0..500;

/// What a block may be.
#[derive(Debug, Clone, Default)]
struct BlockHistory {
    /// What it was when a flush was acknowledged last, or was read as after a kill.
    flushed: u32,
    /// What was written since then, acknowledged or not.
    since: Vec<u32>,
}

impl BlockHistory {
    fn may_be(&self, tag: u32) -> bool {
        self.flushed == tag || self.since.contains(&tag)
    }

    /// Every change of it was acknowledged before a flush began that was acknowledged.
    fn flush(&mut self) {
        if let Some(last) = self.since.drain(..).next_back() {
            self.flushed = last;
        }
    }

    fn read(&mut self, tag: u32) {
        self.flushed = tag;
        self.since.clear();
    }
}

/// A change of some blocks to a tag; 0: to zeroes.
#[derive(Debug, Clone)]
struct BlockChange {
    blocks: ops::Range<usize>,
    tag: u32,
    flags: WriteFlags,
}

impl BlockChange {
    fn request<'a>(&self, client: &'a Client) -> IoFuture<'a, ()> {
        let range = range(self.blocks.clone());
        if self.tag == 0 {
            return client.write_zeroes(range, self.flags);
        }
        let data = self.tag.to_le_bytes().repeat(range.len_usize() / 4);
        client.write(range, single(data), self.flags)
    }
}

/// The volume as its client knows it.
pub(super) struct Writer {
    blocks: Vec<BlockHistory>,
    rng: Rng,
    changes_max: (usize, usize),
    last_tag: u32,
    pub(super) flushes: u64,
}

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            blocks: vec![BlockHistory::default(); BLOCKS],
            rng: Rng::with_seed(seed),
            changes_max: LARGE_CHANGES_MAX,
            last_tag: 0,
            flushes: 0,
        }
    }

    /// Reads the whole disk: each block is what it may be.
    pub(super) async fn verify(&mut self, client: &Client) {
        for (nth, histories) in self.blocks.chunks_mut(READ_BLOCKS).enumerate() {
            let first = nth * READ_BLOCKS;
            let read = client.read(range(first..first + histories.len())).await;
            let bytes = gather(&read.expect("a server that runs answers"));
            for (at, (block, history)) in (first..).zip(bytes.chunks(BLOCK).zip(histories)) {
                let tag = tag_of(block);
                assert!(
                    history.may_be(tag),
                    "block {at} is {tag}, not of {history:?}"
                );
                history.read(tag);
            }
        }
    }

    /// Changes and flushes until a request fails.
    pub(super) async fn work(&mut self, client: &Client) -> IoError {
        self.changes_max = match self.rng.bool() {
            true => LARGE_CHANGES_MAX,
            false => SMALL_CHANGES_MAX,
        };
        loop {
            if let Err(error) = self.change(client).await {
                return error;
            }
            if self.rng.u8(0..3) > 0 {
                continue;
            }
            if let Err(error) = self.flush(client).await {
                return error;
            }
        }
    }

    /// Flushes everything.
    pub(super) async fn flush(&mut self, client: &Client) -> Result<(), IoError> {
        client.flush().await?;
        self.flushes += 1;
        self.blocks.iter_mut().for_each(BlockHistory::flush);
        Ok(())
    }

    /// Some changes at once, of different blocks.
    pub(super) async fn change(&mut self, client: &Client) -> Result<(), IoError> {
        let changes = self.plan();
        for change in &changes {
            for history in &mut self.blocks[change.blocks.clone()] {
                history.since.push(change.tag);
            }
        }
        let results = join_all(changes.iter().map(|change| change.request(client))).await;
        for (change, result) in changes.iter().zip(&results) {
            if result.is_ok() && change.flags.contains(WriteFlags::FUA) {
                let histories = &mut self.blocks[change.blocks.clone()];
                histories.iter_mut().for_each(BlockHistory::flush);
            }
        }
        results.into_iter().collect()
    }

    fn plan(&mut self) -> Vec<BlockChange> {
        let (count_max, len_max) = self.changes_max;
        let count = self.rng.usize(1..=count_max);
        let section = BLOCKS / count;
        let mut changes = Vec::new();
        for nth in 0..count {
            let len = self.rng.usize(1..=len_max);
            let first = nth * section + self.rng.usize(0..=section - len);
            self.last_tag += 1;
            let is_zero = self.rng.u8(0..6) == 0;
            let is_through = self.rng.u8(0..8) == 0;
            changes.push(BlockChange {
                blocks: first..first + len,
                tag: if is_zero { 0 } else { self.last_tag },
                flags: match is_through {
                    true => WriteFlags::FUA,
                    false => WriteFlags::empty(),
                },
            });
        }
        changes
    }
}

fn range(blocks: ops::Range<usize>) -> Range {
    let bytes = |blocks: usize| (blocks * BLOCK) as u64;
    Range::new(bytes(blocks.start), bytes(blocks.len()))
}

/// The tag that fills a block.
fn tag_of(block: &[u8]) -> u32 {
    let (first, _) = block.split_first_chunk().expect("a block has a tag");
    assert!(
        block.chunks(4).all(|tag| tag == first),
        "a block has parts of several writes"
    );
    u32::from_le_bytes(*first)
}

/// How the server of a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundEnd {
    /// It is killed.
    Killed,
    /// Another server is killed while it opens the volume; then it is killed.
    KilledBehindOpening,
    /// The store is killed and started again, and the server is killed later.
    KilledAfterStore,
    /// It is killed while the store does not run.
    KilledWithStore,
    /// Another server opens the volume; then it is killed.
    TakenOver,
}

impl RoundEnd {
    fn of(rng: &mut Rng) -> Self {
        match rng.u8(0..10) {
            0..=2 => Self::Killed,
            3..=4 => Self::KilledBehindOpening,
            5..=6 => Self::KilledAfterStore,
            7 => Self::KilledWithStore,
            _ => Self::TakenOver,
        }
    }
}

/// A server of the volume that runs, and its address.
pub(super) struct RunningServer {
    pub(super) process: Process,
    pub(super) uri: String,
}

impl RunningServer {
    pub(super) fn kill(&mut self) {
        let killed = self.process.signal(Signal::KILL);
        killed.expect("it runs until it is killed");
        self.process.wait(LIMIT).expect("it was killed");
    }
}

/// The store, and the servers of the volume.
struct KillWorld<'a> {
    place: Place<'a>,
    volume: String,
    store: S3Server,
    rng: Rng,
    servers: u32,
    collector: Collector,
    /// The one that took the volume over in the last round.
    next: Option<RunningServer>,
}

impl KillWorld<'_> {
    fn serve(&mut self) -> RunningServer {
        self.servers += 1;
        let name = format!("server-{}", self.servers);
        let (process, uri) = self.place.serve(&self.volume, &name);
        RunningServer { process, uri }
    }

    async fn pause(&mut self, milliseconds: ops::Range<u64>) {
        let pause = Duration::from_millis(self.rng.u64(milliseconds));
        clock::sleep(pause).await;
    }

    /// From the check of what the round before left to the check of what is left.
    async fn round(&mut self, writer: &mut Writer) {
        let next = self.next.take();
        let mut server = next.unwrap_or_else(|| self.serve());
        let client = connect(&server.uri).await.expect("the server listens");
        writer.verify(&client).await;
        let end = RoundEnd::of(&mut self.rng);
        let error = {
            let work = pin!(writer.work(&client));
            let ending = pin!(self.end(end, &mut server));
            let work = match select(work, ending).await {
                Either::Left((error, _)) => panic!("{error}, and nothing had happened"),
                Either::Right(((), work)) => work,
            };
            match select(work, pin!(clock::sleep(LIMIT))).await {
                Either::Left((error, _)) => error,
                Either::Right(_) => panic!("requests do not fail after {end:?}"),
            }
        };
        eprintln!("  {end:?}: {error}");
        client.close().await;
        if end == RoundEnd::TakenOver {
            refuses(&server.uri).await;
            server.kill();
        }
    }

    /// What ends the server of a round, at some moment of its writes.
    async fn end(&mut self, end: RoundEnd, server: &mut RunningServer) {
        self.pause(LIFE_MS).await;
        match end {
            RoundEnd::Killed => server.kill(),
            RoundEnd::KilledBehindOpening => {
                self.kill_opening();
                server.kill();
            }
            RoundEnd::KilledAfterStore => {
                self.store.kill();
                self.pause(OUTAGE_MS).await;
                self.store.restart();
                self.pause(LIFE_MS).await;
                server.kill();
            }
            RoundEnd::KilledWithStore => {
                self.store.kill();
                self.pause(OUTAGE_MS).await;
                server.kill();
                self.store.restart();
            }
            RoundEnd::TakenOver => self.next = Some(self.serve()),
        }
    }

    /// Starts a server and kills it at some moment of its start. The writer waits meanwhile: it may have lost the volume.
    fn kill_opening(&mut self) {
        let listen = format!("unix:{}", self.place.folder.join("opening").display());
        let arguments = ["serve", &self.volume, "--listen", &listen];
        let started = Process::start(&mut self.place.command(&arguments));
        let mut opening = started.expect("it starts");
        let life = Duration::from_millis(self.rng.u64(OPENING_MS));
        let ended = opening.wait(life);
        assert!(matches!(ended, Err(WaitError::Late { .. })), "{ended:?}");
        opening.signal(Signal::KILL).expect("it runs");
        opening.wait(LIMIT).expect("it was killed");
    }

    /// A server reads all, writes, and closes the volume; then nothing is left but what the index refers to.
    async fn close(&mut self, writer: &mut Writer) {
        let next = self.next.take();
        let mut server = next.unwrap_or_else(|| self.serve());
        let client = connect(&server.uri).await.expect("the server listens");
        writer.verify(&client).await;
        let changed = writer.change(&client).await;
        changed.expect("a server that runs answers");
        let flushed = writer.flush(&client).await;
        flushed.expect("a server that runs answers");
        self.collector.wait();
        client.close().await;
        let signalled = server.process.signal(Signal::TERM);
        signalled.expect("it runs until it is stopped");
        let ended = server.process.wait(LIMIT).expect("it stops");
        assert!(ended.success(), "{}", server.process.stderr());
        self.collector.collect_all(&self.place);
    }

    fn check(&self, options: &[&str]) {
        let check = self
            .place
            .done(&[&["bucket", "check", &self.volume], options].concat());
        assert!(check.contains("no problem found"), "{check}");
    }
}

/// A client that gives up a server which was killed.
pub(super) async fn connect(uri: &str) -> Result<Arc<Client>, String> {
    let config = ClientConfig {
        connections: 2,
        reconnect_for: Duration::from_millis(200),
        ..ClientConfig::default()
    };
    let client = Client::connect(uri.parse().expect("a URI"), config).await;
    client.map_err(|error| error.to_string())
}

/// A server that lost the volume carries out nothing for another client either.
async fn refuses(uri: &str) {
    let Ok(client) = connect(uri).await else {
        return;
    };
    // No history has this tag: a read would find it.
    let data = u32::MAX.to_le_bytes().repeat(BLOCK / 4);
    let written = client.write(range(0..1), single(data), WriteFlags::FUA);
    assert!(written.await.is_err(), "two servers write");
    client.close().await;
}

fn play(folder: &Path, rounds: u64, seed: u64) -> String {
    let store = S3Server::start(S3Make::Versity, folder);
    let proxy = FaultyProxy::start(store.port(), RequestFaults::SOME, seed);
    let place = Place::s3(folder, proxy.port());
    let volume = format!("{}/lab/kills", place.prefix);
    place.done(&["bucket", "create", &volume, "8M"]);
    let mut writer = Writer::new(seed);
    let mut world = KillWorld {
        collector: Collector::new(folder, &volume, "lab/kills"),
        place,
        volume,
        store,
        rng: Rng::with_seed(!seed),
        servers: 0,
        next: None,
    };
    let play = async {
        for nth in 1..=rounds {
            eprintln!("round {nth} of {rounds}, seed {seed}");
            world.collector.start(&world.place);
            world.round(&mut writer).await;
            world.check(if nth == rounds { &["--data"] } else { &[] });
            if nth == rounds || nth.is_multiple_of(CLOSE_EVERY) {
                world.close(&mut writer).await;
            }
        }
        let last = world.serve();
        let client = connect(&last.uri).await.expect("the server listens");
        writer.verify(&client).await;
        client.close().await;
    };
    engine::run(&engine::Config::default(), |_| play).expect("an engine");
    let (changes, flushes, faults) = (writer.last_tag, writer.flushes, proxy.faults());
    let Collector {
        count,
        deleted,
        vacated,
        is_held,
        ..
    } = world.collector;
    let is_tried = flushes > 0 && faults > 0 && (deleted > 0 || is_held);
    assert!(is_tried, "nothing was tried");
    format!(
        "{rounds} rounds from seed {seed}: {changes} changes, {flushes} flushes, {faults} faults, {count} collections of {deleted} objects, \
         {vacated} vacated before"
    )
}

#[test]
fn what_a_flush_acknowledged_survives_kills_of_the_server() {
    if !requires::all(&[S3Make::Versity.is_there()]) {
        return;
    }
    let seeds = WorldSeeds::from_env();
    let folder = tempfile::tempdir().expect("a folder");
    let rounds = seeds.count.unwrap_or(ROUNDS);
    eprintln!("{}", play(folder.path(), rounds, seeds.from));
}

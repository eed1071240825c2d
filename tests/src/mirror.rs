//! Arrays on files and servers, mirrors mostly: create, query, load, and inspect.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use testkit::first_difference;

use crate::image::bytes_at;
use crate::raw::{self, Request, WRITE};
use crate::said::{self, outboard};
use crate::server::Server;

/// How long anything may take that happens by itself: a member is looked for after 1, 3, 7 … seconds.
const LIMIT: Duration = Duration::from_secs(180);
/// Bytes of one record of a [`Load`].
pub const RECORD: usize = 4096;
/// Records of a load, and how far apart they are.
pub const RECORDS: u64 = 48;
/// Bytes from one record to the next.
pub const APART: u64 = 1 << 20;
/// Requests between two pauses of a load, and how long one is: a resync yields to a load that never pauses.
const AT_ONCE: u64 = 16;
const PAUSE: Duration = Duration::from_millis(80);

/// Makes a mirror of `members`, all identical, with a bitmap of fine chunks.
///
/// # Panics
/// If it cannot be made.
#[track_caller]
pub fn create(members: &[&str], more: &[&str]) {
    create_level("1", members, &[&["--assume-clean"], more].concat());
}

/// Makes an array of that level, with a bitmap of fine chunks.
///
/// # Panics
/// If it cannot be made.
#[track_caller]
pub fn create_level(level: &str, members: &[&str], more: &[&str]) {
    let mut args = vec!["array", "create", "--level", level, "--bitmap", "64K"];
    args.extend(["--force", "--name", "m"]);
    args.extend(more);
    args.extend(members);
    said::run(&mut outboard(&args)).ok();
}

/// How the array of a server is.
///
/// # Panics
/// If the server does not say.
#[track_caller]
pub fn status(server: &mut Server) -> Value {
    let process = server.process().id().to_string();
    let args = ["array", "status", "m", "--json", "--server", &process];
    let told = said::run(&mut outboard(&args)).ok();
    serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}: {told}"))
}

/// The state of the member of that name.
///
/// # Panics
/// If there is none.
#[must_use]
#[track_caller]
pub fn state_of(status: &Value, name: &str) -> String {
    let mut members = status["members"].as_array().into_iter().flatten();
    let member = members.find(|member| member["name"] == name);
    let member = member.unwrap_or_else(|| panic!("{name} is none of {status:#}"));
    member["state"].as_str().unwrap_or_default().to_owned()
}

/// What a program says that is refused an array: what is wrong, without where it stands.
///
/// # Panics
/// If it is not refused.
#[must_use]
#[track_caller]
pub fn refused(args: &[&str]) -> String {
    let said = said::run(&mut outboard(args));
    assert_eq!(said.code, Some(1), "{said:?}");
    let mut lines = said.stderr.lines();
    let line = lines.find_map(|line| line.strip_prefix("outboard: "));
    line.unwrap_or_else(|| panic!("{said:?}")).to_owned()
}

/// Waits until the array of a server is as `wanted`.
///
/// # Panics
/// If it never is.
#[track_caller]
pub fn wait_until(server: &mut Server, what: &str, wanted: impl Fn(&Value) -> bool) {
    let begin = now();
    loop {
        let status = status(server);
        if wanted(&status) {
            return;
        }
        assert!(
            begin.elapsed() < LIMIT,
            "never {what}: {status:#}\n{}",
            server.process().stderr()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until all members are in sync and nothing is left to do.
///
/// # Panics
/// If they never are.
#[track_caller]
pub fn wait_until_whole(server: &mut Server) {
    wait_until(server, "whole", |status| {
        status["working"] == status["parts"] && status["sync"].is_null()
    });
}

#[expect(clippy::disallowed_methods, reason = "servers run in real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Where the data of a member begin: its superblock says so (version 1.2).
///
/// # Panics
/// If it has none.
#[must_use]
#[track_caller]
pub fn data_offset(image: &str) -> u64 {
    let superblock = bytes_at(image, 4096, 256);
    assert_eq!(superblock[..4], 0xa92b_4efc_u32.to_le_bytes(), "{image}");
    let field: [u8; 8] = superblock[128..136].try_into().expect("8 bytes");
    u64::from_le_bytes(field) * 512
}

/// Fails if two members do not hold the same data.
///
/// # Panics
/// If so.
#[track_caller]
pub fn assert_alike(a: &str, b: &str) {
    let read = |image: &str| {
        let bytes = std::fs::read(image).expect("a member");
        let data = usize::try_from(data_offset(image)).expect("a small one");
        bytes[data..].to_vec()
    };
    let (a, b) = (read(a), read(b));
    let differ = first_difference(&a, &b);
    assert_eq!(differ, None, "the first byte that differs");
}

/// What a load has learnt.
#[derive(Debug, Default, Clone)]
pub struct Kept {
    /// By record: the number it was written with, acknowledged and flushed after that.
    pub flushed: BTreeMap<u64, u64>,
    /// By record: the number of the last write that may be there.
    pub sent: BTreeMap<u64, u64>,
}

/// Writes records over and over, flushing every few, on a connection of its own until the server goes or
/// it is stopped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    longest_us: Arc<AtomicU64>,
    kept: Arc<Mutex<Kept>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Load {
    /// Begins, on the default export of `server`.
    ///
    /// # Panics
    /// If the server takes no client.
    #[must_use]
    #[track_caller]
    pub fn start(server: &Server) -> Self {
        let stream = raw::connected(server.port());
        // A write that takes longer has failed the test in any case.
        stream
            .set_read_timeout(Some(LIMIT))
            .expect("a limit of time");
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let longest_us = Arc::new(AtomicU64::new(0));
        let kept = Arc::new(Mutex::new(Kept::default()));
        let run = {
            let (stop, done, longest_us, kept) =
                (stop.clone(), done.clone(), longest_us.clone(), kept.clone());
            move || write_until(stream, &stop, (&done, &longest_us), &kept)
        };
        let thread = std::thread::Builder::new().name("load".to_owned());
        Self {
            stop,
            done,
            longest_us,
            kept,
            thread: thread.spawn(run).expect("a thread"),
        }
    }

    /// Waits until so many more requests were acknowledged.
    ///
    /// # Panics
    /// If the server hangs.
    #[track_caller]
    pub fn wait_for(&self, more: u64) {
        let wanted = self.done.load(Ordering::Acquire) + more;
        let begin = now();
        while self.done.load(Ordering::Acquire) < wanted {
            assert!(begin.elapsed() < LIMIT, "the load stands still");
            assert!(!self.thread.is_finished(), "the load has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The longest time that a request took.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_us.load(Ordering::Acquire))
    }

    /// Ends it; what must be there now.
    ///
    /// # Panics
    /// If a request failed.
    #[track_caller]
    pub fn stop(self) -> Kept {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.join().expect("a thread that ends in order");
        ended.expect("requests that succeed");
        self.kept.lock().expect("no panic").clone()
    }

    /// What must be there after the server was killed.
    ///
    /// # Panics
    /// If the load still runs.
    #[track_caller]
    pub fn cut_off(self) -> Kept {
        let ended = self.thread.join().expect("a thread that ends in order");
        assert!(ended.is_err(), "its server was killed");
        self.kept.lock().expect("no panic").clone()
    }
}

/// A record: its number and its place, over and over.
fn record(place: u64, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < RECORD {
        bytes.extend(number.to_le_bytes());
        bytes.extend(place.to_le_bytes());
    }
    bytes
}

fn write_until(
    mut stream: TcpStream,
    stop: &AtomicBool,
    (done, longest_us): (&AtomicU64, &AtomicU64),
    kept: &Mutex<Kept>,
) -> io::Result<()> {
    let mut acknowledged = BTreeMap::new();
    for number in 1.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let place = number * 7 % RECORDS;
        let request = Request {
            command: WRITE,
            flags: 0,
            cookie: number,
            offset: place * APART,
            len: u32::try_from(RECORD).expect("small"),
        };
        kept.lock().expect("no panic").sent.insert(place, number);
        let begin = now();
        let (error, _) = raw::write(&mut stream, request, &record(place, number))?;
        assert_eq!(error, 0, "write {number}");
        acknowledged.insert(place, number);
        if number % 8 == 0 {
            let (error, _) = raw::flush(&mut stream, number)?;
            assert_eq!(error, 0, "flush {number}");
            kept.lock()
                .expect("no panic")
                .flushed
                .extend(acknowledged.iter().map(|(place, number)| (*place, *number)));
            acknowledged.clear();
        }
        let took = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        longest_us.fetch_max(took, Ordering::AcqRel);
        done.fetch_add(1, Ordering::AcqRel);
        if number % AT_ONCE == 0 {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

impl Kept {
    /// Fails if `image`, a member that is not in use, lacks something.
    ///
    /// # Panics
    /// If so.
    #[track_caller]
    pub fn assert_in(&self, image: &str) {
        self.assert_from(image, data_offset(image));
    }

    /// Fails if `file`, a copy of what the array holds, lacks something.
    ///
    /// # Panics
    /// If so.
    #[track_caller]
    pub fn assert_in_copy(&self, file: &str) {
        self.assert_from(file, 0);
    }

    #[track_caller]
    fn assert_from(&self, image: &str, data: u64) {
        assert!(self.flushed.len() > 8, "too little was written");
        for (place, flushed) in &self.flushed {
            let bytes = bytes_at(image, data + place * APART, RECORD);
            let number = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
            let sent = self.sent[place];
            assert!(
                (*flushed..=sent).contains(&number),
                "record {place}: write {number} is there, {flushed} was flushed, {sent} is the last"
            );
            assert!(bytes == record(*place, number), "record {place} is torn");
        }
    }
}

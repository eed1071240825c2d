//! [`Collector`]: collections of a volume of which the servers are killed, next to them, and behind one that closed it.
//!
//! # Fault model
//!
//! In place of the 15 minutes that an object waits, the record of the collection before, and what was left of probes, are made older in
//! the store, of which the objects are files. Nothing else is changed there.
//!
//! # Invariants
//!
//! * A dry run lists what the command behind it deletes; no other data object disappears.
//! * Behind a server that closed the volume two collections leave no orphan: each file in the folder of the data is an object that the
//!   index refers to, and in the folder of the volume is nothing but headers, index and data. Objects of the index are SlateDB's, and are
//!   not counted. Where the store failed a reader that ended, objects may be left that its checkpoint refers to, which expires within 15
//!   minutes: only if the collection reports one. A checkpoint of a command would stay for hours.
//! * What a relocation moves is what it was: the caller compares it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::proc::{Process, WaitError};
use testkit::s3::BUCKET;

use super::{LIMIT, Place};

/// How long an object waits; a little more.
const AGE: Duration = Duration::from_secs(15 * 60 + 1);

/// How long a checkpoint of a reader stays that SlateDB did not remove.
const READER_SECONDS: u64 = 15 * 60;

/// The collections of a volume on versitygw.
pub(super) struct Collector {
    volume: String,
    /// Its objects.
    folder: PathBuf,
    /// A collection next to servers.
    running: Option<Process>,
    /// Collections that ended.
    pub(super) count: u64,
    /// Objects that were deleted.
    pub(super) deleted: u64,
    /// Objects that were vacated.
    pub(super) vacated: u64,
    /// Whether a reader that the store failed held what was overwritten, when all was collected.
    pub(super) is_held: bool,
    /// Whether the next collection relocates data.
    relocates: bool,
}

impl Collector {
    /// Those of the volume `name` of the bucket, which is a folder below `folder`.
    pub(super) fn new(folder: &Path, volume: &str, name: &str) -> Self {
        Self {
            volume: volume.to_owned(),
            folder: folder.join("store").join(BUCKET).join(name),
            running: None,
            count: 0,
            deleted: 0,
            vacated: 0,
            is_held: false,
            relocates: true,
        }
    }

    /// Starts a collection next to what follows, unless one runs.
    pub(super) fn start(&mut self, place: &Place<'_>) {
        self.finish(Duration::ZERO);
        if self.running.is_none() {
            self.make_older();
            let mut arguments = vec!["--json", "bucket", "gc", &self.volume];
            // Of nearly all objects.
            arguments.extend(self.relocates.then_some("--relocate=95"));
            self.relocates = !self.relocates;
            let started = Process::start(&mut place.command(&arguments));
            self.running = Some(started.expect("it starts"));
        }
    }

    /// Waits for the collection that runs, for up to `limit`.
    fn finish(&mut self, limit: Duration) {
        let Some(mut process) = self.running.take() else {
            return;
        };
        match process.wait(limit) {
            Err(WaitError::Late { .. }) if limit.is_zero() => self.running = Some(process),
            ended => {
                let status = ended.expect("it ends");
                let log = process.stderr();
                if !status.success() && log.contains("no server that has it open went on with it") {
                    // All were killed too soon.
                    return;
                }
                assert!(status.success(), "a collection: {log}");
                let report = serde_json::from_str(&process.stdout());
                self.add(&report.expect("it is JSON"));
            }
        }
    }

    /// Waits for the collection that runs, while a server may answer it.
    pub(super) fn wait(&mut self) {
        self.finish(LIMIT);
    }

    fn add(&mut self, report: &Value) {
        self.count += 1;
        self.deleted += report["deleted"].as_u64().expect("a number");
        let vacated = &report["relocation"]["objects"];
        self.vacated += vacated.as_u64().unwrap_or(0);
    }

    /// Two collections of a volume that was closed, and what is left.
    pub(super) fn collect_all(&mut self, place: &Place<'_>) {
        let gc = |options: &[&str]| {
            place.json(&[&["--json", "bucket", "gc", &self.volume], options].concat())
        };
        let first = gc(&[]);
        self.make_older();
        let planned = gc(&["--dry-run"]);
        let before = self.objects();
        let second = gc(&[]);
        let left = self.objects();
        let due = due(&planned);
        let recorded = names(&first, |object| object["wait_s"] != 0);
        assert!(recorded.is_subset(&due), "{first} {planned}");
        let removed: BTreeSet<_> = before.difference(&left).cloned().collect();
        assert_eq!(removed, due, "what is deleted is what the dry run lists");
        assert_eq!(self::due(&second), due, "and what is reported");
        assert_eq!(second["probes"], planned["probes"]);
        self.add(&first);
        self.add(&second);
        let held_s = second["held_s"].as_u64().expect("a number");
        self.is_held |= held_s > 0;
        self.assert_no_orphans(place, left.len() as u64, held_s);
    }

    fn assert_no_orphans(&self, place: &Place<'_>, objects: u64, held_s: u64) {
        let check = place.json(&["--json", "bucket", "check", &self.volume]);
        let number = |name: &str| check[name].as_u64().expect("a number");
        let unreferenced = number("unreferenced");
        let is_held = (1..=READER_SECONDS).contains(&held_s);
        assert!(unreferenced == 0 || is_held, "{held_s} s: {check}");
        let found = ["problem_count", "objects"].map(number);
        assert_eq!(found, [0, objects - unreferenced], "{check}");
        let used = files(&self.folder).into_iter().filter_map(|path| {
            let path = path.strip_prefix(&self.folder).ok()?;
            let first = path.components().next()?;
            Some(first.as_os_str().to_string_lossy().into_owned())
        });
        let used: BTreeSet<String> = used.collect();
        let of_volume = ["data", "index", "volume"].map(str::to_owned);
        assert!(used.is_subset(&of_volume.into()), "orphans in {used:?}");
    }

    /// The data objects in the store, by name.
    fn objects(&self) -> BTreeSet<String> {
        let files = files(&self.folder.join("data")).into_iter();
        let names = files.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        names.collect()
    }

    /// Makes the record, and what is left of probes, older than objects have to be.
    fn make_older(&self) {
        for path in files(&self.folder.join("gc")) {
            let json = fs::read_to_string(&path).expect("it is text");
            let mut json: Value = serde_json::from_str(&json).expect("it is JSON");
            // The others are requests to a server, which have no times.
            for found in json["found"].as_array_mut().into_iter().flatten() {
                let time = found["time"].as_u64().expect("milliseconds");
                let age = u64::try_from(AGE.as_millis()).expect("minutes");
                found["time"] = (time - age).into();
            }
            fs::write(&path, json.to_string()).expect("it is written");
        }
        for path in files(&self.folder.join("probe")) {
            let file = fs::File::options().write(true).open(&path);
            // A server that opens the volume deletes its own.
            let Ok(file) = file else { continue };
            let time = file.metadata().and_then(|found| found.modified());
            let time = time.expect("a file has a time") - AGE;
            file.set_modified(time).expect("it is set");
        }
    }
}

/// What a collection deletes, or would delete.
fn due(report: &Value) -> BTreeSet<String> {
    names(report, |object| object["wait_s"] == 0)
}

fn names(report: &Value, is_meant: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let objects = report["objects"].as_array().expect("a list").iter();
    let names = objects.filter(|object| is_meant(object));
    let names = names.map(|object| object["name"].as_str().expect("a name").to_owned());
    names.collect()
}

/// All files of a folder and those below it, if it is there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files(&entry.path()),
        _ => vec![entry.path()],
    });
    found.collect()
}

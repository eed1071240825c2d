//! fio's command lines. Pure: a job in, a list of arguments out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::plan::{Direction, FioJob, Pattern};
use crate::units::{Bytes, Nanos};

/// A disk that does nothing, as large as any sweep's largest requests need it.
const GENERATOR_SIZE: u64 = 1 << 30;
/// How long fio's own ceiling is measured.
const GENERATOR_TIME: Nanos = Nanos::from_ms(300);

/// How fio submits I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Linux 5.1 and later.
    #[serde(rename = "io_uring")]
    IoUring,
    /// The older asynchronous interface.
    Libaio,
    /// One request at a time per job: the depth has no effect.
    Psync,
    /// fio's own client of NBD.
    Nbd,
}

impl Engine {
    /// Those for files and devices, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::IoUring, Self::Libaio, Self::Psync];

    /// As fio names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Libaio => "libaio",
            Self::Psync => "psync",
            Self::Nbd => "nbd",
        }
    }
}

/// What fio reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A file that is there, or a device.
    File(&'a Path),
    /// An export.
    Uri(&'a str),
}

/// One measurement as fio's options.
#[derive(Debug, Clone, PartialEq)]
pub struct FioCommand<'a> {
    /// The test's name.
    pub name: &'a str,
    /// What is to be done.
    pub job: &'a FioJob,
    /// On what: it has been written.
    pub subject: Subject<'a>,
    /// Bytes of it to use; each is touched at most once.
    pub size: Bytes,
    /// How to submit.
    pub engine: Engine,
    /// Past the page cache.
    pub direct: bool,
    /// For the order of random requests.
    pub seed: u64,
}

/// The arguments after `fio` for one measurement with its result in `output`.
#[must_use]
pub fn measure(job: &FioCommand<'_>, output: &Path) -> Vec<OsString> {
    let asked = job.job;
    let mut args = common(job.name, job.subject, output);
    let rw = match (asked.pattern, asked.direction) {
        (Pattern::Sequential, direction) => direction.as_str().to_owned(),
        (Pattern::Random, direction) => format!("rand{}", direction.as_str()),
    };
    let each =
        asked.room(job.size).0 / u64::from(asked.jobs) / asked.block_size.0 * asked.block_size.0;
    push(&mut args, "rw", rw);
    push(&mut args, "bs", asked.block_size.0);
    push(&mut args, "iodepth", asked.depth);
    push(&mut args, "numjobs", asked.jobs);
    push(&mut args, "size", each);
    let moved = asked.moved_max(job.size).0 / u64::from(asked.jobs);
    let moved = moved / asked.block_size.0 * asked.block_size.0;
    if moved < each {
        push(&mut args, "io_size", moved);
    }
    let begin = asked.begin(job.size);
    if begin.0 > 0 {
        push(&mut args, "offset", begin.0);
    }
    if asked.jobs > 1 {
        // Each job has its own part of the file, so that no byte is touched twice.
        push(&mut args, "offset_increment", each);
        args.push("--group_reporting".into());
    }
    push(&mut args, "runtime", milliseconds(asked.runtime()));
    if asked.time_based {
        push(&mut args, "time_based", 1);
    }
    push_engine(&mut args, job.subject, job.engine);
    push(&mut args, "direct", u8::from(job.direct && !asked.buffered));
    push(&mut args, "randseed", job.seed);
    push(&mut args, "allow_file_create", 0);
    if asked.direction == Direction::Write {
        // fio counts this flush into the running time: a write is not done while a cache holds it.
        push(&mut args, "end_fsync", 1);
    }
    for (key, value) in &asked.options {
        push(&mut args, key, value);
    }
    args
}

/// The arguments that write the test file for the first time, for at most `limit`.
#[must_use]
pub fn lay_out(
    subject: Subject<'_>,
    size: Bytes,
    limit: Nanos,
    seed: u64,
    output: &Path,
) -> Vec<OsString> {
    let mut args = common("lay-out", subject, output);
    push(&mut args, "rw", "write");
    push(&mut args, "bs", 1 << 20);
    push(&mut args, "size", size.0);
    push(&mut args, "runtime", milliseconds(limit));
    // Buffered: this only has to be written, not measured, and works on every filesystem.
    push_engine(&mut args, subject, Engine::Psync);
    push(&mut args, "fsync", 64);
    push(&mut args, "end_fsync", 1);
    push(&mut args, "randseed", seed);
    args
}

/// The arguments that find out whether `engine` works on `subject` at all: one 4 KiB read.
#[must_use]
pub fn probe(subject: Subject<'_>, engine: Engine, direct: bool, output: &Path) -> Vec<OsString> {
    let mut args = common("probe", subject, output);
    push(&mut args, "rw", "read");
    push(&mut args, "bs", 4096);
    push(&mut args, "size", 4096);
    push_engine(&mut args, subject, engine);
    push(&mut args, "direct", u8::from(direct));
    push(&mut args, "allow_file_create", 0);
    args
}

/// The arguments that find out what fio itself makes of `job` on a disk that does nothing.
#[must_use]
pub fn generator(job: &FioJob, output: &Path) -> Vec<OsString> {
    let mut args = common("generator", Subject::File(Path::new("null")), output);
    let rw = match job.direction {
        Direction::Read => "randread",
        Direction::Write => "randwrite",
    };
    push(&mut args, "rw", rw);
    push(&mut args, "bs", job.block_size.0);
    push(&mut args, "iodepth", job.depth);
    push(&mut args, "numjobs", job.jobs);
    args.push("--group_reporting".into());
    push(&mut args, "size", GENERATOR_SIZE);
    push(&mut args, "time_based", 1);
    push(&mut args, "runtime", milliseconds(GENERATOR_TIME));
    push(&mut args, "ioengine", "null");
    args
}

fn common(name: &str, subject: Subject<'_>, output: &Path) -> Vec<OsString> {
    let mut args = Vec::new();
    push(&mut args, "name", name);
    match subject {
        Subject::File(file) => args.push(file_name(file)),
        // fio knows an engine's own options only behind the engine.
        Subject::Uri(uri) => {
            push(&mut args, "ioengine", Engine::Nbd.as_str());
            push(&mut args, "uri", uri);
        }
    }
    args.push("--thread".into());
    push(&mut args, "eta", "never");
    // Fresh random data is drawn once and scrambled in each request: it neither compresses nor
    // deduplicates, and costs the generator little.
    push(&mut args, "scramble_buffers", 1);
    push(&mut args, "fallocate", "none");
    // Latency as the program sees it, submission included.
    push(&mut args, "lat_percentiles", 1);
    push(&mut args, "clat_percentiles", 0);
    push(&mut args, "output-format", "json+");
    let mut arg = OsString::from("--output=");
    arg.push(output);
    args.push(arg);
    args
}

/// A file's engine; that of an export is given with its URI.
fn push_engine(args: &mut Vec<OsString>, subject: Subject<'_>, engine: Engine) {
    if let Subject::File(_) = subject {
        push(args, "ioengine", engine.as_str());
    }
}

fn push(args: &mut Vec<OsString>, key: &str, value: impl std::fmt::Display) {
    args.push(format!("--{key}={value}").into());
}

/// The argument that names a file. fio splits it at colons; a backslash keeps one.
pub(crate) fn file_name(path: &Path) -> OsString {
    let mut arg = OsString::from("--filename=");
    match path.to_str() {
        Some(text) => arg.push(text.replace(':', "\\:")),
        None => arg.push(path),
    }
    arg
}

fn milliseconds(time: Nanos) -> String {
    format!("{}ms", time.0.div_ceil(1_000_000).max(1))
}

/// Options with which a fio of this machine has `args` done by the fio that `client` names, and the job
/// that it sends there. fio sends only jobs that are in a file; what is about its own output stays here.
#[must_use]
pub fn sent(args: &[OsString], client: &str, job: &Path) -> (Vec<OsString>, OsString) {
    const STAYS: [&str; 4] = ["output", "output-format", "eta", "readonly"];
    let mut here: Vec<OsString> = vec![client.into()];
    let (mut name, mut there) = (OsString::from("job"), OsString::new());
    for arg in args {
        let bytes = arg.as_bytes();
        let bytes = bytes.strip_prefix(b"--").unwrap_or(bytes);
        let key = bytes.split(|byte| *byte == b'=').next().unwrap_or(bytes);
        let value = || OsStr::from_bytes(&bytes[(key.len() + 1).min(bytes.len())..]).to_owned();
        match std::str::from_utf8(key) {
            Ok("name") => name = value(),
            Ok(key) if STAYS.contains(&key) => here.push(arg.clone()),
            _ => {
                there.push(OsStr::from_bytes(bytes));
                there.push("\n");
            }
        }
    }
    here.push(job.into());
    let mut text = OsString::from("[");
    text.push(name);
    text.push("]\n");
    text.push(there);
    (here, text)
}

/// Whether fio takes a path as it is from a file of jobs, where some characters mean something.
#[must_use]
pub(crate) fn can_be_sent(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let means = |byte: &u8| byte.is_ascii_control() || b"$;#\"'`\\".contains(byte);
    !bytes.iter().any(means)
}

/// A command as it can be pasted into a shell.
#[must_use]
pub fn shown(program: &str, args: &[OsString]) -> String {
    let words = std::iter::once(program.to_owned())
        .chain(args.iter().map(|arg| arg.to_string_lossy().into_owned()));
    words
        .map(|word| quoted(&word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A word as it can be pasted into a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

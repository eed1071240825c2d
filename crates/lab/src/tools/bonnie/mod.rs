//! bonnie++: block writes, rewrites, reads and seeks of a large file; small files made, looked at and
//! removed.
//!
//! Its headline is the block read, as in the paper on virtual disks. Between its tests its file leaves the
//! page cache ([`pauses`]), so that it need not be larger than memory. bonnie++ prints no figure for what took
//! it less than half a second (`+++++`): then our own clock is used, and where even that is too coarse the lower
//! bound is given and the result is invalid, since a bound is no measurement. Sizes in its lines are KiB, see
//! bon_csv2txt(1), format version 2.

mod pauses;

use std::process::Stdio;

use serde::{Deserialize, Serialize};

use self::pauses::Pauses;
use super::result::{ToolFigure, ToolResult, Unit};
use super::{Installed, Invocation, Program, Ran, Start, ToolDirs, ToolError, ToolKind, Writes};
use crate::checks::{Check, Finding};
use crate::plan::size;
use crate::units::{Bytes, MIB, Nanos};

/// What has to be installed.
pub const PROGRAM: Program = Program {
    name: "bonnie++",
    package: "bonnie++",
    // It knows no such argument, complains, and says its version.
    version_args: &["-?"],
};
/// The least file.
pub(crate) const SIZE_MIN: Bytes = Bytes(16 << 20);
/// The most files, in thousands of 1024.
pub const FILES_MAX: u32 = 1024;
/// The time below which it prints `+++++`.
const MEASURABLE: Nanos = Nanos::from_ms(500);
/// The time below which our own clock, which looks a thousand times a second, is off by more than some 4 %.
const OWN_CLOCK_MIN: Nanos = Nanos::from_ms(50);

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BonnieOptions {
    /// The large file; whole MiB.
    #[serde(with = "size")]
    pub size: Bytes,
    /// Bytes of one request; a power of two.
    #[serde(with = "size", default = "chunk")]
    pub block_size: Bytes,
    /// Small files, in units of 1024; none when 0.
    #[serde(default)]
    pub files: u32,
    /// Their size.
    #[serde(with = "size", default = "small")]
    pub file_size: Bytes,
    /// The large file is written past the page cache. What is read of it is not in there either way.
    #[serde(default)]
    pub direct: bool,
}

const fn chunk() -> Bytes {
    Bytes(8192)
}

const fn small() -> Bytes {
    Bytes(4096)
}

/// The command.
#[must_use]
pub fn command(
    options: &BonnieOptions,
    installed: &Installed,
    place: &ToolDirs<'_>,
    is_root: bool,
) -> Invocation {
    let mut args = vec!["-d".into(), place.directory.as_os_str().to_owned()];
    let mut push = |words: [String; 2]| args.extend(words.map(Into::into));
    push([
        "-s".into(),
        format!("{}:{}", options.size.0 / MIB, options.block_size.0),
    ]);
    let small = options.file_size.0;
    push(["-n".into(), format!("{}:{small}:{small}:1", options.files)]);
    // The file is as large as the plan says; a check reports whether that is larger than memory.
    push(["-r".into(), "0".into()]);
    push(["-m".into(), "target".into()]);
    // It reads a number of 32 bits.
    push(["-z".into(), (place.seed & 0x7fff_ffff).to_string()]);
    if is_root {
        push(["-u".into(), "root".into()]);
    }
    args.push("-f".into());
    if options.direct {
        args.push("-D".into());
    }
    // It waits before each of its tests.
    args.extend(["-y", "p"].map(Into::into));
    Invocation::new(&installed.program, args).by_lines()
}

/// A field of its line: where it is, what it is called, and its unit.
const FIELDS: [(usize, &str, Unit); 10] = [
    (17, "block read", Unit::BytesPerSecond),
    (11, "block write", Unit::BytesPerSecond),
    (13, "rewrite", Unit::BytesPerSecond),
    (19, "seeks", Unit::PerSecond),
    (26, "create in order", Unit::PerSecond),
    (28, "look at in order", Unit::PerSecond),
    (30, "remove in order", Unit::PerSecond),
    (32, "create shuffled", Unit::PerSecond),
    (34, "look at shuffled", Unit::PerSecond),
    (36, "remove shuffled", Unit::PerSecond),
];

/// The figures in its line, and the findings on them; any text is none at worst. `read` is how long the
/// block read of `size` took by our own clock.
#[must_use]
pub fn parse(
    text: &str,
    size: Bytes,
    read: Option<Nanos>,
) -> Option<(Vec<ToolFigure>, Vec<Finding>)> {
    let line = text
        .lines()
        .rfind(|line| line.starts_with("1.9") || line.starts_with("2."))?;
    let fields: Vec<&str> = line.split(',').collect();
    let mut figures = Vec::new();
    let mut findings = Vec::new();
    for (at, name, unit) in FIELDS {
        match *fields.get(at)? {
            "" => {}
            word if word.starts_with('+') => {
                if at == FIELDS[0].0 {
                    let (rate, finding) = too_quick(name, size, read);
                    figures.push(ToolFigure::higher(name, rate, unit));
                    findings.push(finding);
                }
            }
            word => figures.push(ToolFigure::higher(name, value(word, unit)?, unit)),
        }
    }
    let headline = figures
        .first()
        .is_some_and(|first| first.name == FIELDS[0].1);
    headline.then_some((figures, findings))
}

/// The rate of what took bonnie++ too little time, and the findings on it.
fn too_quick(name: &str, size: Bytes, took: Option<Nanos>) -> (f64, Finding) {
    let why =
        format!("the {name} took less than half a second, for which bonnie++ gives no figure");
    match took.filter(|took| *took >= OWN_CLOCK_MIN) {
        Some(took) => {
            let text =
                format!("{why}: it is by the lab's own clock, to some thousandths of a second");
            let rate = size.0 as f64 / took.seconds();
            (rate, Finding::of_run(text))
        }
        None => {
            let text = format!("{why}: what is shown is a lower bound, and size has to be larger");
            let bound = size.0 as f64 / MEASURABLE.seconds();
            (bound, Finding::invalid(Check::Run, text))
        }
    }
}

fn value(word: &str, unit: Unit) -> Option<f64> {
    let value: f64 = word.parse().ok()?;
    let value = match unit {
        Unit::BytesPerSecond => value * 1024.0,
        _ => value,
    };
    (value.is_finite() && value >= 0.0).then_some(value)
}

impl ToolKind for BonnieOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn check(&self) -> Result<(), String> {
        if self.size < SIZE_MIN || !self.size.0.is_multiple_of(MIB) {
            let size = self.size;
            return Err(format!(
                "size is {size}, bonnie++ needs whole MiB and at least {SIZE_MIN}"
            ));
        }
        let chunk = self.block_size.0;
        if !chunk.is_power_of_two() || !(256..=MIB).contains(&chunk) {
            return Err(format!(
                "block_size is {}, bonnie++ needs a power of two from 256 B to 1 MiB",
                self.block_size
            ));
        }
        if self.files > FILES_MAX {
            return Err(format!(
                "files is {}, at most {FILES_MAX} units of 1024 files",
                self.files
            ));
        }
        Ok(())
    }

    /// Four passes over the file at 100 MB/s, and 2000 files a second in each of six passes.
    fn usual(&self) -> Nanos {
        const RATE: u64 = 100_000_000;
        const FILES_RATE: u64 = 2000;
        let file = self.size.0.saturating_mul(4) / (RATE / 1000);
        let files = u64::from(self.files) * 1024 * 6 * 1000 / FILES_RATE;
        Nanos::from_ms(file.saturating_add(files).saturating_add(1000))
    }

    fn at_once(&self) -> Option<u32> {
        Some(1)
    }

    fn writes(&self) -> Writes {
        // The file is written and rewritten; small files are made in order and shuffled.
        let files = (u64::from(self.files) * 1024).saturating_mul(self.file_size.0);
        Writes::AtMost(Bytes(self.size.0.saturating_add(files).saturating_mul(2)))
    }

    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        let is_root = rustix::process::geteuid().is_root();
        vec![command(self, installed, place, is_root).shown()]
    }

    fn run(&self, start: Start<'_>) -> Result<Ran, ToolError> {
        let is_root = rustix::process::geteuid().is_root();
        let command = command(self, start.installed, start.place, is_root);
        let mut running = command.start_with(start.place, Stdio::piped())?;
        let input = running
            .input()
            .ok_or_else(|| PROGRAM.failed("it takes no input"))?;
        let mut stops = Pauses::new(start.place.directory, running.printed_to(), input);
        let mut tick = |now| {
            stops.look(start.tick);
            (start.tick)(now)
        };
        let printed = running.wait(start.limit, &mut tick)?;
        let parsed = parse(&printed.output, self.size, stops.read());
        let (figures, mut findings) = parsed.ok_or(PROGRAM.unreadable("line of figures"))?;
        findings.extend(stops.findings());
        Ok(Ran {
            result: ToolResult {
                // Written once, rewritten (read and written), read once.
                bytes: Some(Bytes(self.size.0 * 4)),
                ..start.result(figures, printed.elapsed)
            },
            output: printed.output + &printed.errors,
            commands: vec![command.shown()],
            findings,
        })
    }
}

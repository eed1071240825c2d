//! A scenario: a half of a mirror is pulled, rejoins, and is resynced under load.
//!
//! The paper on virtual disks describes it ("fully operational after an hour or so") and measures
//! nothing. Here a load of random writes runs alone first, then while the half is resynced; the
//! headline is how long that takes.
//!
//! What is copied is more than what the half missed: a bitmap knows whole chunks, of 64 MiB usually. So the rate of the
//! copying is the array's own word; what the half missed, by the time, is a figure of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layout::{RigLayout, shown as line};
use super::process::Running;
use super::programs::{FIO, fio_job};
use super::result::{ToolFigure, ToolResult, Unit};
use super::rig::Rig;
use super::{
    Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError, ToolKind, Writes,
};
use crate::checks::Finding;
use crate::fio::parse;
use crate::plan::size;
use crate::units::{Bytes, MIB, Nanos};

/// What has to be installed.
pub const PROGRAM: Program = FIO;
/// The halves.
const HALVES: [&str; 2] = ["a", "b"];
/// Makes the mirror; its halves come behind.
const CREATE: [&str; 5] = ["array", "create", "--level", "1", "--assume-clean"];
/// The least data.
pub(crate) const BYTES_MIN: Bytes = Bytes(16 << 20);
/// How long the array may take to notice that a half is away.
const NOTICE: Duration = Duration::from_secs(60);
/// Between two looks at the half.
const POLL: Duration = Duration::from_millis(20);
/// The shortest resync during which the load is measured well.
const SHORT: Nanos = Nanos::from_ms(1000);

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResyncOptions {
    /// Written while the half is away, and so copied when it is back.
    #[serde(with = "size")]
    pub bytes: Bytes,
    /// How long the load runs alone first.
    #[serde(default = "before")]
    pub before_ms: u64,
    /// The bounds of the half that is pulled, as those of `throttle`: `bytes=50M/s`.
    #[serde(default)]
    pub half: Option<String>,
}

const fn before() -> u64 {
    3000
}

impl ResyncOptions {
    /// One half: superblocks, a journal and the load's own file besides.
    const fn half_size(&self) -> Bytes {
        Bytes(self.bytes.0.saturating_add(128 * MIB))
    }

    /// The mirror, one half of which can be pulled and bounded.
    fn disk(&self, layout: &RigLayout) -> String {
        let [a, b] = HALVES.map(|half| layout.drive(half));
        let b = match &self.half {
            Some(bounds) => format!("throttle({b}, {bounds})"),
            None => b,
        };
        format!("array({a}, {b})")
    }
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResyncSeen {
    /// From the half's return until both are in sync.
    pub resync: Nanos,
    /// Bytes a second that the array last reported while it copied; none when that was over before it was read.
    pub copied: Option<f64>,
    /// The load's operations per second alone.
    pub alone: f64,
    /// And during the resync; none when that was over before it was read.
    pub beside: Option<f64>,
}

/// The figures; pure.
#[must_use]
pub fn figures(seen: &ResyncSeen, bytes: Bytes) -> Vec<ToolFigure> {
    let seconds = seen.resync.seconds().max(f64::MIN_POSITIVE);
    let mut figures = vec![
        ToolFigure::time("until both are alike", seen.resync),
        ToolFigure::rate("made good of what it missed", bytes.0 as f64 / seconds),
    ];
    if let Some(copied) = seen.copied {
        figures.push(ToolFigure::rate("rate of the copying", copied));
    }
    figures.push(ToolFigure::per_second("load alone", seen.alone));
    if let Some(beside) = seen.beside {
        figures.push(ToolFigure::per_second("load beside it", beside));
        let share = beside / seen.alone.max(f64::MIN_POSITIVE);
        figures.push(ToolFigure::higher("left of the load", share, Unit::Part));
    }
    figures
}

/// The load: random writes of 4 KiB, one at a time, each flushed in groups as a database does.
fn load(installed: &Installed, mounted: &Path, runtime_ms: u64) -> Invocation {
    let options = format!(
        "--size=16777216 --rw=randwrite --bs=4096 --ioengine=psync --direct=1 --fdatasync=32 --time_based \
         --runtime={runtime_ms}ms --thread --eta=never --lat_percentiles=1 --output-format=json+"
    );
    fio_job(installed, "load", Some(mounted), &options)
}

/// What the half misses that is pulled.
fn fresh(installed: &Installed, mounted: &Path, bytes: Bytes) -> Invocation {
    let size = bytes.0;
    let options = format!(
        "--size={size} --rw=write --bs=1048576 --ioengine=psync --end_fsync=1 --thread --eta=never"
    );
    fio_job(installed, "fresh", Some(mounted), &options)
}

/// A mirror with a load on it.
struct Scenario<'a> {
    rig: Rig<'a>,
    installed: &'a Installed,
    place: ToolDirs<'a>,
    /// Where the load's files are.
    mounted: PathBuf,
    /// The image of the half that is pulled, which identifies the array's member.
    image: String,
}

impl<'a> Scenario<'a> {
    fn begin(options: &ResyncOptions, start: &mut Start<'a>) -> Result<Self, ToolError> {
        let mut rig = Rig::new(*start.place)?;
        let paths = HALVES.map(|half| rig.image(half, options.half_size()));
        let [a, b] = paths;
        let [a, b] = [a?, b?].map(|path| path.to_string_lossy().into_owned());
        rig.outboard([&CREATE[..], &[&a, &b]].concat(), start.tick)?;
        let disk = options.disk(&RigLayout::of(start.place));
        let mounted = rig.attach(&disk, start.tick)?;
        Ok(Self {
            rig,
            installed: start.installed,
            place: *start.place,
            mounted,
            image: b,
        })
    }

    /// Starts the load.
    fn load(&mut self, runtime_ms: u64) -> Result<Running, ToolError> {
        let command = load(self.installed, &self.mounted, runtime_ms);
        self.rig.commands.push(command.shown());
        command.start(&self.place)
    }

    /// Fresh data, which the half that is away has not got.
    fn write(&mut self, bytes: Bytes, tick: Tick<'_>) -> Result<(), ToolError> {
        let command = fresh(self.installed, &self.mounted, bytes);
        self.rig.commands.push(command.shown());
        let limit = Duration::from_secs(600);
        command.run(&self.place, limit, tick).map(drop)
    }

    fn re_add(&mut self, tick: Tick<'_>) -> Result<(), ToolError> {
        let half = self.half(tick)?;
        let words = ["array", "re-add", &half.array, "--disk", &half.name];
        self.rig.outboard(words, tick).map(drop)
    }

    /// Waits until the half is in this state; bytes a second that were copied meanwhile, as last reported.
    fn wait_for(
        &mut self,
        state: &str,
        limit: Duration,
        tick: Tick<'_>,
    ) -> Result<Option<f64>, ToolError> {
        let started = engine::clock::now();
        let mut copied = None;
        loop {
            let half = self.half(tick)?;
            copied = half.speed.or(copied);
            let found = half.state;
            if found == state {
                return Ok(copied);
            }
            if engine::clock::now().duration_since(started) > limit {
                return Err(ToolError::Failed {
                    tool: "resync".into(),
                    reason: format!("the half is {found}, and not {state}"),
                });
            }
            std::thread::sleep(POLL);
        }
    }

    /// How the half is.
    fn half(&mut self, tick: Tick<'_>) -> Result<Half, ToolError> {
        let told = self.rig.outboard(["array", "status", "--json"], tick)?;
        half_of(&told, &self.image).ok_or(ToolError::Unreadable {
            tool: "outboard array status",
            what: "half of ours",
        })
    }
}

/// A half as its array reports it.
#[derive(Debug, PartialEq)]
struct Half {
    /// The array's UUID.
    array: String,
    /// What the array calls the half.
    name: String,
    /// How it is.
    state: String,
    /// Bytes a second that its array copies, if it does.
    speed: Option<f64>,
}

/// The member on this image.
fn half_of(told: &str, image: &str) -> Option<Half> {
    let all: Value = serde_json::from_str(told).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    all.as_array()?.iter().find_map(|array| {
        let mut members = array["members"].as_array()?.iter();
        let ours = members
            .find(|member| text(&member["name"]).is_some_and(|name| name.contains(image)))?;
        Some(Half {
            array: text(&array["uuid"])?,
            name: text(&ours["name"])?,
            state: text(&ours["state"])?,
            // Nothing was copied yet where it is 0.
            speed: array["sync"]["speed"].as_f64().filter(|speed| *speed > 0.0),
        })
    })
}

fn operations(text: &str) -> Result<f64, ToolError> {
    let result = parse(text).map_err(|_| PROGRAM.unreadable("result of the load"))?;
    Ok(result.ios as f64 / result.runtime.seconds().max(f64::MIN_POSITIVE))
}

impl ToolKind for ResyncOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn name(&self) -> &'static str {
        "resync"
    }

    fn check(&self) -> Result<(), String> {
        if self.bytes < BYTES_MIN || !self.bytes.0.is_multiple_of(MIB) {
            let bytes = self.bytes;
            return Err(format!(
                "bytes is {bytes}, whole MiB and at least {BYTES_MIN} are needed"
            ));
        }
        if self.before_ms < 300 {
            return Err(format!("before_ms is {}, at least 300", self.before_ms));
        }
        Ok(())
    }

    /// Written and copied at 50 MB/s.
    fn usual(&self) -> Nanos {
        let copied = self.bytes.0.saturating_mul(2) / 50_000;
        Nanos::from_ms(copied + self.before_ms + 5000)
    }

    fn writes(&self) -> Writes {
        Writes::AsMuchAsItCan
    }

    /// What is run, the load during the resync as long as that takes.
    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        let layout = RigLayout::of(place);
        let mounted = layout.mounted();
        let halves = HALVES.map(|half| layout.path(half).into());
        let create = CREATE.map(Into::into).into_iter().chain(halves);
        let re_add = ["array", "re-add", "ARRAY", "--disk", "b"].map(Into::into);
        let images = HALVES.map(|half| layout.image_shown(half, self.half_size()));
        let scenario = [
            line("outboard", create),
            line("outboard", layout.attach(&self.disk(&layout))),
            load(installed, &mounted, self.before_ms).shown(),
            layout.pull_shown("b"),
            fresh(installed, &mounted, self.bytes).shown(),
            layout.plug_shown("b"),
            load(installed, &mounted, self.before_ms).shown(),
            line("outboard", re_add),
            layout.detach_shown(),
        ];
        images.into_iter().chain(scenario).collect()
    }

    fn run(&self, mut start: Start<'_>) -> Result<Ran, ToolError> {
        let started = engine::clock::now();
        let mut scenario = Scenario::begin(self, &mut start)?;
        let load = scenario.load(self.before_ms)?;
        let alone = load.wait(start.limit, start.tick)?;
        let alone_rate = operations(&alone.output)?;
        scenario.rig.pull("b")?;
        scenario.write(self.bytes, start.tick)?;
        scenario.wait_for("failed", NOTICE, start.tick)?;
        scenario.rig.plug("b")?;

        let returned = engine::clock::now();
        let load = scenario.load(start.limit.as_millis().try_into().unwrap_or(u64::MAX))?;
        scenario.re_add(start.tick)?;
        let copied = scenario.wait_for("in_sync", start.limit, start.tick)?;
        let resync = Nanos::from_duration(engine::clock::now().duration_since(returned));
        let beside = load.interrupt()?;

        let seen = ResyncSeen {
            resync,
            copied,
            alone: alone_rate,
            beside: operations(&beside.output).ok(),
        };
        let mut findings = Vec::new();
        if resync < SHORT {
            let text =
                format!("the resync took {resync}, too short to say much of the load beside it");
            findings.push(Finding::of_run(text));
        }
        let commands = scenario.rig.commands.clone();
        scenario.rig.take_down()?;
        let elapsed = Nanos::from_duration(engine::clock::now().duration_since(started));
        Ok(Ran {
            result: ToolResult {
                bytes: Some(self.bytes),
                ..start.result(figures(&seen, self.bytes), elapsed)
            },
            output: format!("{}\n{}", alone.output, beside.output),
            commands,
            findings,
        })
    }
}

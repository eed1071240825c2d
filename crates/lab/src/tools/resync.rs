//! A scenario: an array copies under load. A member is pulled and rejoins, a new drive takes its place, or the array gets one
//! more ([`SyncAction`]).
//!
//! The paper on virtual disks describes a half of a mirror that rejoins ("fully operational after an hour or so") and measures
//! nothing. Here a load of random writes runs alone first, then while the array copies; the
//! headline is how long that takes.
//!
//! What is copied for a member that rejoins is more than what it missed: a bitmap knows whole chunks, of 64 MiB usually. So the
//! rate of the copying is the array's own word; what the member missed, by the time, is a figure of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layout::{RigLayout, shown as line};
use super::process::Running;
use super::programs::{FIO, fio_job};
use super::result::{ToolFigure, ToolResult, Unit};
use super::rig::Rig;
use super::sync_action::SyncAction;
use super::{
    Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError, ToolKind, Writes,
};
use crate::checks::Finding;
use crate::fio::parse;
use crate::plan::{bounds, size};
use crate::units::{Bytes, MIB, Nanos};

/// What has to be installed.
pub const PROGRAM: Program = FIO;
/// The drives, of which an array has the first ones.
const DRIVES: [&str; 13] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m",
];
/// The one that is pulled.
const PULLED: &str = "b";
/// The most members before the array grows.
const MEMBERS_MAX: u32 = 12;
/// The least data.
pub(crate) const BYTES_MIN: Bytes = Bytes(16 << 20);
/// How long the array may take to notice that a member is away.
const NOTICE: Duration = Duration::from_secs(60);
/// Between two looks at the array.
const POLL: Duration = Duration::from_millis(20);
/// The shortest resync during which the load is measured well.
const SHORT: Nanos = Nanos::from_ms(1000);

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResyncOptions {
    /// Written while the member is away, and so copied when it is back; or before the array grows.
    #[serde(with = "size")]
    pub bytes: Bytes,
    /// Of the array: 1, 4, 5 or 6.
    #[serde(default = "mirror")]
    pub level: u32,
    /// Of the array, before it grows.
    #[serde(default = "two")]
    pub members: u32,
    /// What it copies for.
    #[serde(default)]
    pub action: SyncAction,
    /// How long the load runs alone first.
    #[serde(default = "before")]
    pub before_ms: u64,
    /// The bounds of the member that is pulled, as those of `throttle`: `bytes=50M/s`.
    #[serde(default)]
    pub half: Option<String>,
}

const fn mirror() -> u32 {
    1
}

const fn two() -> u32 {
    2
}

const fn before() -> u64 {
    3000
}

impl ResyncOptions {
    /// How many members have room for data, parity not counted.
    fn data_members(&self) -> u64 {
        let parities = match self.level {
            4 | 5 => 1,
            6 => 2,
            _ => self.members.saturating_sub(1),
        };
        u64::from(self.members.saturating_sub(parities).max(1))
    }

    /// One member: the array has room for superblocks, a journal and the load's own file besides.
    fn member_size(&self) -> Bytes {
        let all = self.bytes.0.saturating_add(128 * MIB);
        Bytes(all.div_ceil(self.data_members()).next_multiple_of(MIB))
    }

    /// What the action copies, as far as it is known before.
    fn copied(&self) -> Bytes {
        match self.action {
            SyncAction::ReAdd => self.bytes,
            SyncAction::Add => self.member_size(),
            SyncAction::Grow => Bytes(self.member_size().0 * self.data_members()),
        }
    }

    /// The members, before the array grows.
    fn members(&self) -> &'static [&'static str] {
        &DRIVES[..self.members as usize]
    }

    /// All drives, also the one that comes.
    fn drives(&self) -> &'static [&'static str] {
        let more = usize::from(self.action == SyncAction::Grow);
        &DRIVES[..self.members as usize + more]
    }

    /// The words that make the array; its members come behind.
    fn create(&self) -> Vec<String> {
        let level = self.level.to_string();
        let words = ["array", "create", "--level", &level, "--assume-clean"];
        // Logs of partial parity would take the place of the bitmap that a member rejoins by.
        let policy = ["--consistency-policy", "bitmap"];
        let policy = policy.into_iter().filter(|_| self.level != 1);
        words.into_iter().chain(policy).map(str::to_owned).collect()
    }

    /// The array, one member of which can be pulled and bounded.
    fn disk(&self, layout: &RigLayout) -> String {
        let drives = self.members().iter().map(|name| {
            let drive = layout.drive(name);
            match &self.half {
                Some(bounds) if *name == PULLED => format!("throttle({drive}, {bounds})"),
                _ => drive,
            }
        });
        format!("array({})", drives.collect::<Vec<_>>().join(", "))
    }

    /// What begins the copying, of `array`. `member`: as the array calls the one that comes.
    fn begin(&self, array: &str, member: &str) -> Vec<Vec<String>> {
        let devices = (self.members + 1).to_string();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self.action {
            SyncAction::ReAdd => vec![words(&["array", "re-add", array, "--disk", member])],
            SyncAction::Add => vec![
                words(&["array", "remove", array, "--member", member]),
                words(&["array", "add", array, "--disk", member, "--force"]),
            ],
            SyncAction::Grow => vec![
                words(&["array", "add", array, "--disk", member]),
                words(&["array", "grow", array, "--devices", &devices]),
            ],
        }
    }
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResyncSeen {
    /// From the member's return, or that of the drive that comes, until all are in sync.
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
pub fn figures(seen: &ResyncSeen, options: &ResyncOptions) -> Vec<ToolFigure> {
    let seconds = seen.resync.seconds().max(f64::MIN_POSITIVE);
    let (action, copied) = (options.action, options.copied().0 as f64);
    let mut figures = vec![
        ToolFigure::time(action.headline(options.level), seen.resync),
        ToolFigure::rate(action.rate(), copied / seconds),
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

/// What the member misses that is pulled.
fn fresh(installed: &Installed, mounted: &Path, bytes: Bytes) -> Invocation {
    let size = bytes.0;
    let options = format!(
        "--size={size} --rw=write --bs=1048576 --ioengine=psync --end_fsync=1 --thread --eta=never"
    );
    fio_job(installed, "fresh", Some(mounted), &options)
}

/// An array with a load on it.
struct Scenario<'a> {
    rig: Rig<'a>,
    installed: &'a Installed,
    place: ToolDirs<'a>,
    /// Where the load's files are.
    mounted: PathBuf,
    /// The image of the member that is pulled, which identifies the array, or of another one.
    image: String,
}

impl<'a> Scenario<'a> {
    fn begin(options: &ResyncOptions, start: &mut Start<'a>) -> Result<Self, ToolError> {
        let mut rig = Rig::new(*start.place)?;
        for name in options.drives() {
            rig.image(name, options.member_size())?;
        }
        let images = options.members().iter().map(|name| rig.path(name));
        let images: Vec<String> = images
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        rig.outboard([options.create(), images].concat(), start.tick)?;
        let disk = options.disk(&RigLayout::of(start.place));
        let mounted = rig.attach(&disk, start.tick)?;
        let image = rig.path(PULLED).to_string_lossy().into_owned();
        Ok(Self {
            rig,
            installed: start.installed,
            place: *start.place,
            mounted,
            image,
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

    /// Begins what the array is to copy for.
    fn act(&mut self, options: &ResyncOptions, tick: Tick<'_>) -> Result<(), ToolError> {
        let half = self.half(tick)?;
        let new = self.rig.path(options.drives().last().unwrap_or(&PULLED));
        let member = match options.action {
            SyncAction::Grow => new.to_string_lossy().into_owned(),
            SyncAction::ReAdd | SyncAction::Add => half.name,
        };
        for words in options.begin(&half.array, &member) {
            self.rig.outboard(words, tick)?;
        }
        Ok(())
    }

    /// Waits until nothing is copied, and the member is in sync.
    fn wait_until_synced(
        &mut self,
        limit: Duration,
        tick: Tick<'_>,
    ) -> Result<Option<f64>, ToolError> {
        self.wait_for(|half| half.state == "in_sync" && !half.copies, limit, tick)
    }

    /// Waits until the member is so; bytes a second that were copied meanwhile, as last reported.
    fn wait_for(
        &mut self,
        is_so: impl Fn(&Half) -> bool,
        limit: Duration,
        tick: Tick<'_>,
    ) -> Result<Option<f64>, ToolError> {
        let started = engine::clock::now();
        let mut copied = None;
        loop {
            let half = self.half(tick)?;
            copied = half.speed.or(copied);
            if is_so(&half) {
                return Ok(copied);
            }
            if engine::clock::now().duration_since(started) > limit {
                return Err(ToolError::Failed {
                    tool: "resync".into(),
                    reason: format!("the member stays {}", half.state),
                });
            }
            std::thread::sleep(POLL);
        }
    }

    /// How the member is.
    fn half(&mut self, tick: Tick<'_>) -> Result<Half, ToolError> {
        let told = self.rig.outboard(["array", "status", "--json"], tick)?;
        half_of(&told, &self.image).ok_or(ToolError::Unreadable {
            tool: "outboard array status",
            what: "member of ours",
        })
    }
}

/// A member as its array reports it.
#[derive(Debug, PartialEq)]
struct Half {
    /// The array's UUID.
    array: String,
    /// What the array calls the member.
    name: String,
    /// How it is.
    state: String,
    /// Whether its array copies.
    copies: bool,
    /// Bytes a second that it copies, if it does.
    speed: Option<f64>,
}

/// The member on this image.
fn half_of(status: &str, image: &str) -> Option<Half> {
    let all: Value = serde_json::from_slice(status.as_bytes()).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    all.as_array()?.iter().find_map(|array| {
        let mut members = array["members"].as_array()?.iter();
        let ours = members
            .find(|member| text(&member["name"]).is_some_and(|name| name.contains(image)))?;
        Some(Half {
            array: text(&array["uuid"])?,
            name: text(&ours["name"])?,
            state: text(&ours["state"])?,
            copies: !array["sync"].is_null(),
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
        let (least, most) = match self.level {
            1 => (2, 2),
            4 | 5 => (3, MEMBERS_MAX),
            6 => (4, MEMBERS_MAX),
            level => return Err(format!("level is {level}, and not 1, 4, 5 or 6")),
        };
        bounds::within("members", self.members, least..=most)?;
        if self.action == SyncAction::Grow && (self.level == 1 || self.half.is_some()) {
            return Err(
                "action is grow, which is for levels 4, 5 and 6, and pulls no half".to_owned(),
            );
        }
        Ok(())
    }

    /// Written and copied at 50 MB/s.
    fn usual(&self) -> Nanos {
        let copied = self.bytes.0.saturating_add(self.copied().0) / 50_000;
        Nanos::from_ms(copied + self.before_ms + 5000)
    }

    fn writes(&self) -> Writes {
        Writes::AsMuchAsItCan
    }

    /// What is run, the load during the resync as long as that takes.
    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        let layout = RigLayout::of(place);
        let mounted = layout.mounted();
        let path = |name: &&str| layout.path(name).to_string_lossy().into_owned();
        let create = [self.create(), self.members().iter().map(path).collect()].concat();
        let images = self.drives().iter();
        let images = images.map(|name| layout.image_shown(name, self.member_size()));
        let load = || load(installed, &mounted, self.before_ms).shown();
        let fresh = fresh(installed, &mounted, self.bytes).shown();
        let mut shown: Vec<String> = images.collect();
        shown.push(line("outboard", create.into_iter().map(Into::into)));
        shown.push(line("outboard", layout.attach(&self.disk(&layout))));
        shown.push(load());
        let comes = match self.action {
            SyncAction::Grow => {
                shown.push(fresh);
                path(self.drives().last().unwrap_or(&PULLED))
            }
            SyncAction::ReAdd | SyncAction::Add => {
                shown.extend([layout.pull_shown(PULLED), fresh, layout.plug_shown(PULLED)]);
                PULLED.to_owned()
            }
        };
        shown.push(load());
        let begin = self.begin("ARRAY", &comes).into_iter();
        shown.extend(begin.map(|words| line("outboard", words.into_iter().map(Into::into))));
        shown.push(layout.detach_shown());
        shown
    }

    fn run(&self, mut start: Start<'_>) -> Result<Ran, ToolError> {
        let started = engine::clock::now();
        let mut scenario = Scenario::begin(self, &mut start)?;
        let load = scenario.load(self.before_ms)?;
        let alone = load.wait(start.limit, start.tick)?;
        let alone_rate = operations(&alone.output)?;
        if self.action == SyncAction::Grow {
            scenario.write(self.bytes, start.tick)?;
        } else {
            scenario.rig.pull(PULLED)?;
            scenario.write(self.bytes, start.tick)?;
            scenario.wait_for(|half| half.state == "failed", NOTICE, start.tick)?;
            scenario.rig.plug(PULLED)?;
        }

        let returned = engine::clock::now();
        let load = scenario.load(start.limit.as_millis().try_into().unwrap_or(u64::MAX))?;
        scenario.act(self, start.tick)?;
        let copied = scenario.wait_until_synced(start.limit, start.tick)?;
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
                bytes: Some(self.copied()),
                ..start.result(figures(&seen, self), elapsed)
            },
            output: format!("{}\n{}", alone.output, beside.output),
            commands,
            findings,
        })
    }
}

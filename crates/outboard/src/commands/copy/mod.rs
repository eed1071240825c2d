//! `outboard copy`: a disk onto another one, of any kinds.
//!
//! # Invariants
//!
//! * What can be refused is refused before anything is written: the same disk twice, a target that
//!   is too small, a file that would be overwritten without `--force`; with `--bitmap`, a bitmap that the source does not
//!   have, and a target that is missing or of another size.
//! * With `--bitmap`, only ranges that are dirty in it are read and written. The target is neither made nor emptied.
//! * Success is reported after the target was flushed (and compared, with `--verify`).
//! * An array that is the target, or part of it, is marked clean behind the copy, however the copy ends.
//! * A file that this command made is removed unless it is whole; every other target that was left
//!   half written is named as such.

mod bitmap;
mod ends;
mod progress;
mod target;

use std::fmt::Display;
use std::time::Duration;

use block::{Errno, Node};
use clap::ValueEnum;
use engine::clock;
use indicatif::HumanBytes;
use nbd::client::limits::CONNECTIONS_MAX;
use nodes::copy::{CopyError, CopyOptions, CopyProgress, Counts, IN_FLIGHT_MAX, copy, verify};
use serde::Serialize;

use crate::arrays;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::interrupt::Interrupt;
use crate::output::Format;
use bitmap::DirtyBitmap;
use ends::Ends;
use progress::Watch;
use target::{CopyTarget, Prepared};

/// Arguments of `copy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to copy: a file, a device, nbd://HOST/EXPORT or any other disk
    source: String,

    /// Where to: the same; a file that does not exist is made
    target: String,

    /// Write over a file that holds something
    #[arg(long)]
    force: bool,

    /// Incremental: copy only what is dirty in this bitmap of the source (qemu-nbd --bitmap NAME), to a target that has
    /// the rest
    #[arg(long, value_name = "NAME", conflicts_with = "force")]
    bitmap: Option<String>,

    /// Read both back afterwards and compare them
    #[arg(long)]
    verify: bool,

    /// Look for zeroes in the data and make holes of them; auto does where the target can
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Detect::Auto)]
    detect_zeroes: Detect,

    /// Connections to each server
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = between::<CONNECTIONS_MAX>)]
    connections: usize,

    /// Requests of 256 KiB in flight
    #[arg(long, value_name = "N", default_value_t = CopyOptions::default().in_flight, value_parser = between::<IN_FLIGHT_MAX>)]
    requests: usize,
}

/// `--detect-zeroes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Detect {
    Auto,
    Always,
    Never,
}

impl Detect {
    fn applies_to(self, target: &Node) -> bool {
        match self {
            Self::Auto => target.geometry().write_zeroes == block::Support::Native,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// A number from 1 to `MAX`.
fn between<const MAX: usize>(text: &str) -> Result<usize, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {MAX} is wanted"))
}

/// How long a target may take to finish what was on its way when the copy was given up.
const SETTLE: Duration = Duration::from_secs(5);

/// What was done, for programs.
#[derive(Debug, Serialize)]
struct Done<'a> {
    source: &'a str,
    target: &'a str,
    size: u64,
    /// The metadata context of the bitmap.
    #[serde(skip_serializing_if = "Option::is_none")]
    bitmap: Option<&'a str>,
    /// Dirty in the bitmap.
    #[serde(skip_serializing_if = "Option::is_none")]
    dirty: Option<u64>,
    /// Read from the source.
    read: u64,
    /// Written to the target.
    written: u64,
    /// Zeroed in the target.
    zeroed: u64,
    /// Zeroes that the target had already.
    kept: u64,
    verified: bool,
    seconds: f64,
}

/// Copies.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let ends = Ends::find(&args.source, &args.target)?;
    let target = match &args.bitmap {
        Some(_) => CopyTarget::find_existing(&ends.target, &ends.source)?,
        None => CopyTarget::find(&ends.target, args.force)?,
    };
    let interrupt = Interrupt::watch()?;
    let config = engine::Config {
        backend: engine::BackendChoice::Auto,
        cores: 0,
    };
    let main = async |cores| {
        let copying = Copying {
            args,
            ends,
            interrupt,
            cores,
            bitmap: None,
        };
        Box::pin(copying.run(target, format)).await
    };
    engine::run(&config, main).map_err(|error| Failure::because("cannot start", &error))?
}

/// One copy.
struct Copying<'a> {
    args: &'a Args,
    ends: Ends,
    interrupt: Interrupt,
    cores: engine::Handle,
    /// What is dirty, for an incremental copy.
    bitmap: Option<DirtyBitmap>,
}

/// What came of the work on two disks.
enum Outcome {
    Finished,
    Failed(CopyError),
    /// Nothing was written.
    Refused(Failure),
    Interrupted,
}

impl Copying<'_> {
    async fn run(mut self, target: CopyTarget, format: Format) -> Result<(), Failure> {
        let connections = self.args.connections;
        let start = clock::now();
        if let Some(name) = &self.args.bitmap {
            let read = DirtyBitmap::read(&self.ends.source, name);
            self.bitmap = Some(self.unless_interrupted(read).await??);
        }
        let mut sources = Builder::new(true)
            .with_every_byte()
            .with_connections(connections);
        let source = self
            .unless_interrupted(sources.build(&self.ends.source))
            .await??;
        let size = source.geometry().size;
        let mut prepared = target.prepare(size).await?;
        let mut targets = Builder::new(false)
            .with_every_byte()
            .with_connections(connections);
        let target = self
            .unless_interrupted(targets.build(&self.ends.target))
            .await??;
        let progress = CopyProgress::default();
        let outcome = match self.refuse_size(&source, &target) {
            Ok(()) => self.apply(&source, &target, &prepared, &progress).await,
            Err(failure) => Outcome::Refused(failure),
        };
        let counts = progress.counts();
        if matches!(outcome, Outcome::Interrupted) {
            // What is on its way may not land on what is left behind.
            drop(clock::timeout(SETTLE, target.settle()).await);
        }
        let copied = match outcome {
            Outcome::Finished => prepared.finish(size),
            Outcome::Refused(failure) => Err(failure),
            Outcome::Failed(error) => Err(self.failed(error, prepared, size, &counts)),
            Outcome::Interrupted => {
                let state = self.state(prepared, size, &counts);
                Err(Failure::new(format!("interrupted: {state}")))
            }
        };
        // Caches are closed while they are open.
        let finished = arrays::finish(copied, targets.arrays()).await;
        drop(target);
        finished?;
        let seconds = clock::now().saturating_duration_since(start).as_secs_f64();
        self.report(size, &counts, seconds, format)
    }

    /// Waits for a disk to be opened: its server may take its time.
    async fn unless_interrupted<F: Future>(&self, open: F) -> Result<F::Output, Failure> {
        let mut open = Box::pin(open);
        loop {
            match clock::timeout(progress::TICK, open.as_mut()).await {
                Ok(opened) => return Ok(opened),
                Err(_) if self.interrupt.came() => {
                    return Err(Failure::new("interrupted: nothing was copied"));
                }
                Err(_) => {}
            }
        }
    }

    /// An incremental copy needs the size that the bitmap has, at both ends.
    fn refuse_size(&self, source: &Node, target: &Node) -> Result<(), Failure> {
        let Args {
            source: from,
            target: to,
            ..
        } = self.args;
        let Some(bitmap) = &self.bitmap else {
            return Ok(());
        };
        let (source, target) = (source.geometry().size, target.geometry().size);
        if source != bitmap.size() {
            let what = format!(
                "{from} has changed its size from {} bytes to {source}",
                bitmap.size()
            );
            return Err(Failure::new(what).next("nothing was written"));
        }
        if source != target {
            let what = format!(
                "{to} is no earlier copy of {from}: it has {target} bytes, {from} has {source}"
            );
            return Err(Failure::new(what)
                .next("nothing was written; make a full copy first, without --bitmap"));
        }
        Ok(())
    }

    /// Bytes to copy of a source of `size` bytes.
    fn total(&self, size: u64) -> u64 {
        self.bitmap.as_ref().map_or(size, DirtyBitmap::dirty)
    }

    async fn apply(
        &self,
        source: &Node,
        target: &Node,
        prepared: &Prepared,
        progress: &CopyProgress,
    ) -> Outcome {
        let options = CopyOptions {
            target_is_zero: prepared.is_zero(),
            detect_zeroes: self.args.detect_zeroes.applies_to(target),
            ranges: self.bitmap.as_ref().map(|bitmap| bitmap.ranges().to_vec()),
            in_flight: self.args.requests,
            target_file: prepared.file(),
            cores: Some(self.cores.clone()),
        };
        let work = async {
            copy(source.clone(), target.clone(), &options, progress).await?;
            if self.args.verify {
                verify(source.clone(), target.clone(), &options, progress).await?;
            }
            Ok(())
        };
        let watch = Watch::new(
            self.total(source.geometry().size),
            progress,
            &self.interrupt,
        );
        match watch.until(work).await {
            Some(Ok(())) => Outcome::Finished,
            Some(Err(error)) => Outcome::Failed(error),
            None => Outcome::Interrupted,
        }
    }

    /// What failed, and what that means for the target.
    fn failed(&self, error: CopyError, prepared: Prepared, size: u64, counts: &Counts) -> Failure {
        let Args { source, target, .. } = self.args;
        let differs = matches!(error, CopyError::Differs { .. });
        let full = matches!(&error, CopyError::Target(e) if e.errno == Errno::NoSpace);
        let what = match error {
            CopyError::TooSmall {
                source_size,
                target: room,
            } => {
                let what = format!(
                    "{target} is too small: it has {room} bytes, {source} has {source_size}"
                );
                return Failure::new(what).next("nothing was written");
            }
            CopyError::ReadOnly => {
                return Failure::new(format!("{target} is read-only")).next("nothing was written");
            }
            CopyError::Source(error) => format!("cannot read {source}: {error}"),
            CopyError::Target(error) => format!("cannot write {target}: {error}"),
            CopyError::Differs { offset } => {
                format!("{target} differs from {source} at byte {offset}")
            }
            CopyError::Ending => "the copy was ended from outside".to_owned(),
        };
        if differs {
            prepared.keep();
            return Failure::new(what)
                .next(format!("{target} is left for a look at it: unless {source} was written meanwhile, one of the two does not keep what is written to it"));
        }
        let state = self.state(prepared, size, counts);
        let failure = Failure::new(what);
        if full {
            return failure.next(format!("{state}; free some space there first"));
        }
        failure.next(state)
    }

    /// What is left of the target.
    fn state(&self, prepared: Prepared, size: u64, counts: &Counts) -> impl Display + use<> {
        let target = &self.args.target;
        if prepared.remove() {
            return format!("{target} was removed again");
        }
        let (done, size) = (HumanBytes(counts.done()), HumanBytes(self.total(size)));
        format!(
            "{target} is incomplete: {done} of {size} were copied, and it is of no use until a copy comes to its end"
        )
    }

    fn report(
        &self,
        size: u64,
        counts: &Counts,
        seconds: f64,
        format: Format,
    ) -> Result<(), Failure> {
        let Args { source, target, .. } = self.args;
        let Counts {
            read,
            written,
            zeroed,
            kept,
            ..
        } = *counts;
        let done = Done {
            source,
            target,
            size,
            bitmap: self.bitmap.as_ref().map(DirtyBitmap::context),
            dirty: self.bitmap.as_ref().map(DirtyBitmap::dirty),
            read,
            written,
            zeroed,
            kept,
            verified: self.args.verify,
            seconds,
        };
        format.print(&done, || {
            let zeroes = HumanBytes(zeroed + kept);
            let verified = if self.args.verify {
                ", both read back and found equal"
            } else {
                ""
            };
            let dirty = self.bitmap.as_ref().map_or_else(String::new, |bitmap| {
                format!("{} dirty of ", HumanBytes(bitmap.dirty()))
            });
            format!(
                "{target}: {dirty}{} in {seconds:.1} s: {} of data, {zeroes} of zeroes{verified}",
                HumanBytes(size),
                HumanBytes(written)
            )
        })
    }
}

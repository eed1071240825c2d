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
//! * A file that this command made is removed unless it is whole or can be resumed; every other target that was left
//!   half written is named as such.
//! * While a copy can be resumed, its state is in a file; with a copy that has come to its end, that is gone.

mod bitmap;
mod ends;
mod outcome;
mod progress;
mod resume;
mod state_file;
mod target;

use std::path::PathBuf;

use block::{Node, Range};
use clap::ValueEnum;
use engine::clock;
use indicatif::HumanBytes;
use nbd::client::limits::CONNECTIONS_MAX;
use nodes::copy::{
    CopyError, CopyOptions, CopyProgress, Counts, IN_FLIGHT_MAX, checkpoints, copy, verify,
};
use serde::Serialize;

use crate::arrays;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::interrupt::Interrupt;
use crate::output::Format;
use bitmap::DirtyBitmap;
use ends::Ends;
use outcome::Outcome;
use progress::Watch;
use resume::Resume;
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

    /// Continue an interrupted copy. Its state is TARGET.outboard-copy where the target is a file; for any other target, FILE
    /// must be given from the first run on
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "bitmap")]
    resume: Option<Option<PathBuf>>,

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

/// What to do about a file that holds something.
const FORCE: &str = "--force writes over it";

/// What was done, for programs.
#[derive(Debug, Serialize)]
struct Done<'a> {
    source: &'a str,
    target: &'a str,
    size: u64,
    /// Where an interrupted copy was continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<u64>,
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
    let mut resume = Resume::find(args.resume.as_ref(), &ends.target)?;
    let target = find_target(args, &ends, resume.as_ref())?;
    if args.bitmap.is_some() {
        // It is not resumed, but repeated.
        resume = None;
    }
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
            resume,
        };
        Box::pin(copying.run(target, format)).await
    };
    engine::run(&config, main).map_err(|error| Failure::because("cannot start", &error))?
}

/// What is at the target.
fn find_target(args: &Args, ends: &Ends, resume: Option<&Resume>) -> Result<CopyTarget, Failure> {
    let target = &ends.target;
    if args.bitmap.is_some() {
        if let Some(resume) = resume {
            resume.refuse_incomplete(target)?;
        }
        return CopyTarget::find_existing(target, &ends.source);
    }
    if let Some(resume) = resume
        && let Some(path) = resume.continued_path(target)
    {
        return CopyTarget::find_resumed(path, resume.file.path());
    }
    let force = args.force || resume.is_some_and(Resume::is_continued);
    let hint = resume.map_or_else(|| FORCE.to_owned(), Resume::overwrite_hint);
    CopyTarget::find(target, force, &hint)
}

/// One copy.
struct Copying<'a> {
    args: &'a Args,
    ends: Ends,
    interrupt: Interrupt,
    cores: engine::Handle,
    /// What is dirty, for an incremental copy.
    bitmap: Option<DirtyBitmap>,
    /// For a copy that can be resumed.
    resume: Option<Resume>,
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
        let state = self.resume.as_ref().map(|resume| resume.file.clone());
        let mut prepared = target.prepare(size, state.as_ref()).await?;
        let mut targets = Builder::new(false)
            .with_every_byte()
            .with_connections(connections);
        let target = self
            .unless_interrupted(targets.build(&self.ends.target))
            .await??;
        let progress = CopyProgress::default();
        let ready = self.begin(&source, &target).await;
        let outcome = match ready {
            Ok(()) => self.apply(&source, &target, &prepared, &progress).await,
            Err(failure) => Outcome::Refused(failure),
        };
        let counts = progress.counts();
        let is_kept = self.keep_state(&outcome, &target, &progress).await;
        let copied = match outcome {
            Outcome::Finished => {
                let finished = prepared.finish(size);
                // What is durable after a failed sync is not known either.
                let removed = self.remove_state(false);
                finished.and(removed)
            }
            Outcome::Refused(failure) => Err(failure),
            Outcome::Failed(error) => Err(self.failed(error, prepared, is_kept, size, &counts)),
            Outcome::Interrupted => {
                let state = self.state(prepared, is_kept, size, &counts);
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

    /// Refuses disks that are not those of the bitmap, or of the copy that is continued.
    async fn begin(&mut self, source: &Node, target: &Node) -> Result<(), Failure> {
        self.refuse_size(source, target)?;
        let Some(mut resume) = self.resume.take() else {
            return Ok(());
        };
        let (from, to) = (&self.ends.source, &self.ends.target);
        let begun = resume.begin((from, source), (to, target));
        let continues = resume.position() > 0;
        self.resume = Some(resume);
        begun?;
        match &self.resume {
            Some(resume) if continues => {
                let compared = resume.compare((&from.text, source), (&to.text, target));
                self.unless_interrupted(compared).await?
            }
            _ => Ok(()),
        }
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
        let size = source.geometry().size;
        let resumed = self.resume.as_ref().map_or(0, Resume::position);
        let mut rest = options.clone();
        if resumed > 0 {
            rest.ranges = Some(vec![Range::new(resumed, size - resumed)]);
        }
        let work = async {
            copy(source.clone(), target.clone(), &rest, progress).await?;
            if self.args.verify {
                if let Some(resume) = &self.resume
                    && resume.file.position().is_some()
                {
                    // It was flushed: an interruption from here on costs no copying.
                    resume.record(size).await?;
                }
                verify(source.clone(), target.clone(), &options, progress).await?;
            }
            Ok(())
        };
        let work = async {
            tokio::select! {
                done = work => done,
                error = self.checkpoints(target, progress) => Err(error),
            }
        };
        let watch = Watch::new(self.total(size), resumed, progress, &self.interrupt);
        match watch.until(work).await {
            Some(Ok(())) => Outcome::Finished,
            Some(Err(error)) => Outcome::Failed(error),
            None => Outcome::Interrupted,
        }
    }

    /// Keeps how far the copy is durable, while it goes on.
    async fn checkpoints(&self, target: &Node, progress: &CopyProgress) -> CopyError {
        let Some(resume) = &self.resume else {
            return std::future::pending().await;
        };
        let record = async |position| resume.record(position).await;
        let interval = resume.interval();
        checkpoints(target, progress, interval, clock::sleep, record).await
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
        let resumed = self.resume.as_ref().map_or(0, Resume::position);
        let done = Done {
            source,
            target,
            size,
            resumed: Some(resumed).filter(|&position| position > 0),
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
            let begun = match resumed {
                0 => String::new(),
                resumed => format!(", resumed at {}", HumanBytes(resumed)),
            };
            format!(
                "{target}: {dirty}{} in {seconds:.1} s{begun}: {} of data, {zeroes} of zeroes{verified}",
                HumanBytes(size),
                HumanBytes(written)
            )
        })
    }
}

//! `outboard overlay commit`: the changes of an overlay go into its base.
//!
//! # Invariants
//!
//! * Both are locked: no other process reads the base or writes the store during the commit.
//! * An array that is the base, or part of it, is marked clean behind the commit, however that ends.
//! * Until the end, base and store together are what they were; the command may be given again.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use block::Node;
use engine::clock;
use indicatif::{HumanBytes, ProgressBar, ProgressFinish, ProgressStyle};
use nodes::{Committing, Overlay, OverlayError};
use serde::Serialize;

use crate::arrays;
use crate::commands::inspect::{on_the_engine, unnamed};
use crate::failure::Failure;
use crate::graph::NamedDisk;
use crate::graph::builder::Builder;
use crate::interrupt::Interrupt;
use crate::output::Format;

/// Time between two looks at how far it is.
const TICK: Duration = Duration::from_millis(50);
/// How long what is on its way may take to land when the commit was given up.
const SETTLE: Duration = Duration::from_secs(5);

/// Arguments of `overlay commit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file or device that holds the changes
    top: PathBuf,

    /// The base of the overlay: a file, a device or any other disk
    base: String,
}

/// What was done, for programs.
#[derive(Debug, Serialize)]
struct CommitReport<'a> {
    top: String,
    base: &'a str,
    /// Bytes that were changed.
    committed: u64,
    seconds: f64,
}

/// Commits.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let named = unnamed(&args.base)?;
    let interrupt = Interrupt::watch()?;
    let begin = clock::now();
    let committed = on_the_engine(async || Box::pin(commit(args, &named, &interrupt)).await)?;
    let seconds = clock::now().saturating_duration_since(begin).as_secs_f64();
    let top = args.top.display().to_string();
    let base = &args.base;
    let done = CommitReport {
        top: top.clone(),
        base,
        committed,
        seconds,
    };
    format.print(&done, || match committed {
        0 => format!("{top}: there is nothing to commit to {base}"),
        bytes => format!(
            "{base}: {} of changes are in it, in {seconds:.1} s; {top} is empty now",
            HumanBytes(bytes)
        ),
    })
}

async fn commit(args: &Args, named: &NamedDisk, interrupt: &Interrupt) -> Result<u64, Failure> {
    let mut builder = Builder::new(false);
    let base = builder.build(named).await?;
    let progress = Committing::default();
    let committed = commit_to(&base, args, interrupt, &progress).await;
    drop(base);
    arrays::finish(committed, builder.arrays()).await
}

/// Commits to a base that is open.
async fn commit_to(
    base: &Node,
    args: &Args,
    interrupt: &Interrupt,
    progress: &Committing,
) -> Result<u64, Failure> {
    let committed = {
        let mut work = pin!(Overlay::commit(base, &args.top, progress));
        let bar = bar();
        loop {
            match clock::timeout(TICK, work.as_mut()).await {
                Ok(done) => {
                    bar.finish_and_clear();
                    break Some(done);
                }
                Err(_) if interrupt.came() => break None,
                Err(_) => {
                    bar.set_length(progress.total());
                    bar.set_position(progress.done());
                }
            }
        }
    };
    match committed {
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(error)) => Err(failed(args, &error, progress)),
        None => {
            // Writes in flight complete before the end is reported.
            drop(clock::timeout(SETTLE, base.settle()).await);
            Err(Failure::new("interrupted").next(state(args, progress)))
        }
    }
}

fn bar() -> ProgressBar {
    let template = "committing {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    let bar = ProgressBar::new(0).with_finish(ProgressFinish::AndClear);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn failed(args: &Args, error: &OverlayError, progress: &Committing) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        OverlayError::ReadOnlyBase => failure.next("open it writable, without read-only=true"),
        OverlayError::Store { .. } | OverlayError::Base(_) if progress.total() > 0 => {
            failure.next(state(args, progress))
        }
        _ => failure,
    }
}

/// What base and store are after a commit that did not come to its end.
fn state(args: &Args, progress: &Committing) -> String {
    let (top, base) = (args.top.display(), &args.base);
    if progress.done() == 0 {
        return format!("{base} and {top} are what they were");
    }
    format!(
        "{base} has a part of the changes now and is of use only under {top}, which still has all of \
         them: give the same command again to finish"
    )
}

//! `outboard lab …`: how fast, and why not faster.

pub(crate) mod agents;
mod compare;
mod disk_access;
mod disk_targets;
mod export;
mod history;
mod import;
mod list;
mod progress;
mod report;
mod run;
mod show;
mod write_rules;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lab::{LabError, RunId, Store};

use crate::failure::Failure;
use crate::output::Format;

/// What the lab can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a directory or a disk, alone or against another one
    Run(Box<run::Args>),
    /// The plans there are, and the runs that were made
    List(StoreArgs),
    /// A plan as a TOML file, to be copied and edited
    Show(show::Args),
    /// Show a run, and write its report
    Report(report::Args),
    /// Two runs, test by test, where their jobs are equal
    Compare(compare::Args),
    /// Each test over the runs of the same plan on the same target
    History(history::Args),
    /// A run's figures, for other programs
    Export(export::Args),
    /// Keep files of fio's JSON as a run
    Import(import::Args),
}

/// Where results are kept.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StoreArgs {
    /// Where results are kept [default: outboard/lab.sqlite below XDG_DATA_HOME]
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

impl StoreArgs {
    fn path(&self) -> Result<PathBuf, Failure> {
        match &self.store {
            Some(path) => Ok(path.clone()),
            None => lab::store::default_path().map_err(Failure::new),
        }
    }

    /// The store, to be read.
    fn open(&self) -> Result<Store, Failure> {
        self.look()?.ok_or_else(|| Failure::new(LabError::NoRuns))
    }

    /// The same; none, and none is made, where there is none or nothing is in it.
    fn look(&self) -> Result<Option<Store>, Failure> {
        let path = self.path()?;
        match std::fs::metadata(&path) {
            Ok(found) if found.len() > 0 => Store::look(&path).map(Some).map_err(Failure::new),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::because(
                format!("cannot use the store {}", path.display()),
                &error,
            )),
            _ => Ok(None),
        }
    }

    /// Refuses a store that is damaged or may not be written, before anything is made for it. Where there is
    /// none, one can be made.
    fn check(&self) -> Result<(), Failure> {
        let path = self.path()?;
        if !path.exists() {
            return Ok(());
        }
        let store = Store::open(&path).map_err(Failure::new)?;
        store.verify().map_err(Failure::new)
    }
}

/// Does it.
pub(crate) fn run(command: Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(*args, format),
        Command::List(args) => list::run(&args, format),
        Command::Show(args) => show::run(&args, format),
        Command::Report(args) => report::run(&args, format),
        Command::Compare(args) => compare::run(&args, format),
        Command::History(args) => history::run(&args, format),
        Command::Export(args) => export::run(&args),
        Command::Import(args) => import::run(&args, format),
    }
}

/// The run that was requested, or the latest.
fn chosen(store: &Store, run: Option<RunId>) -> Result<RunId, LabError> {
    run.map_or_else(|| store.latest(), Ok)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| Failure::because(format!("cannot write {}", path.display()), &error))
}

//! `outboard lab import`.

use std::path::{Path, PathBuf};

use lab::import::{FILE_BYTES_MAX, FILES_MAX, Import, ImportFile};
use lab::{LabError, Store};

use super::StoreArgs;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `lab import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files that fio 2 or 3 wrote with --output-format=json or json+; of two with the same job the
    /// second is a second block
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The name of the target [default: fio's file name]
    #[arg(long, value_name = "NAME")]
    label: Option<String>,

    #[command(flatten)]
    store: StoreArgs,
}

/// Reads all of them, then keeps them as one run and prints its table.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if args.files.len() > FILES_MAX {
        return Err(Failure::usage(format!("at most {FILES_MAX} files at once")));
    }
    let sources = args.files.iter().map(|path| source(path));
    let now = engine::clock::wall().duration_since(std::time::UNIX_EPOCH);
    let import = Import {
        sources: sources.collect::<Result<_, _>>()?,
        label: args.label.clone(),
        now_unix_ms: now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(0)),
    };
    args.store.check()?;
    let read = lab::import::read(&import).map_err(Failure::new)?;
    let path = args.store.path()?;
    let mut store = Store::open(&path).map_err(Failure::new)?;
    let run = lab::import::keep(&mut store, &read).map_err(Failure::new)?;
    drop(store);
    super::run::print(&path, run, format)
}

fn source(path: &Path) -> Result<ImportFile, Failure> {
    let name = path.display().to_string();
    let cannot = |error: std::io::Error| Failure::because(format!("cannot read {name}"), &error);
    let size = std::fs::metadata(path).map_err(cannot)?.len();
    if size > FILE_BYTES_MAX {
        let reason = format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(Failure::new(LabError::BadImport { file: name, reason }));
    }
    let bytes = std::fs::read(path).map_err(cannot)?;
    Ok(ImportFile {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        name,
    })
}

//! `outboard bucket key …`: the key of encrypted volumes, in a file that its owner alone can read.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use bucket::{VolumeKey, change_key};
use clap::Subcommand;
use serde::Serialize;

use super::{BucketTarget, failed};
use crate::failure::Failure;
use crate::output::Format;

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key in a new file
    Create(KeyFileArgs),
    /// Seal a volume with another key; its data is not written again
    ///
    /// From then on it is opened with the new key alone. Servers that have it open continue until they are started again. Clones keep the key
    /// that they have. The old key still opens copies of the store of before: if it is in wrong hands, copy the data to a new volume.
    Change(ChangeArgs),
}

/// A volume, with its key of now, and the next one.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    target: BucketTarget,

    /// The key that the volume is to have
    #[arg(long, value_name = "FILE")]
    new_key: PathBuf,
}

/// A key to be made.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyFileArgs {
    /// The file; keep a copy of it elsewhere: a volume without its key is lost
    file: PathBuf,
}

/// What was made.
#[derive(Debug, Serialize)]
struct MadeKey {
    file: PathBuf,
}

/// Does it.
pub(super) async fn run(command: &KeyCommand, format: Format) -> Result<(), Failure> {
    match command {
        KeyCommand::Create(args) => create(args, format),
        KeyCommand::Change(args) => {
            let (uri, options) = (&args.target.uri, args.target.options());
            let changed = Box::pin(change_key(uri, &options, &args.new_key)).await;
            let changed = changed.map_err(failed)?;
            format.print(&changed, || format!("{}: has another key", changed.uri))
        }
    }
}

fn create(args: &KeyFileArgs, format: Format) -> Result<(), Failure> {
    let line = VolumeKey::random().to_line();
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&args.file)
        .and_then(|mut file| {
            file.write_all(line.as_bytes())?;
            file.sync_all()
        });
    let shown = args.file.display();
    written.map_err(|error| Failure::new(format!("cannot make the key {shown}: {error}")))?;
    let made = MadeKey {
        file: args.file.clone(),
    };
    format.print(&made, || {
        format!("{shown}: a key; a volume that is encrypted with it is lost without it")
    })
}

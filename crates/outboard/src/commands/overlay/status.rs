//! `outboard overlay status`: how much an overlay has changed, and how much room is left.
//!
//! The store is read as it is on the disk, without its base, also while it is in use.

use std::path::PathBuf;

use indicatif::HumanBytes;
use nodes::{StoreStatus, Validity};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Format, columns};

/// Arguments of `overlay status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file or device that holds the changes
    top: PathBuf,
}

/// The output of the command.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) top: String,
    pub(super) state: &'static str,
    /// Bytes; 0 where nothing is valid.
    pub(super) chunk: u32,
    /// Chunks that differ from the base.
    pub(super) changed_chunks: u64,
    /// The same in bytes.
    pub(super) changed: u64,
    /// Bytes of the store that are taken.
    pub(super) used: u64,
    /// Bytes that it may have.
    pub(super) size: u64,
    /// Bytes that its file takes on the disk.
    pub(super) allocated: Option<u64>,
}

/// Looks.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let status = StoreStatus::read(&args.top).map_err(|error| Failure::from_error(&error))?;
    let report = Report::of(args.top.display().to_string(), &status);
    format.print(&report, || report.text(status.validity))
}

impl Report {
    pub(super) fn of(top: String, status: &StoreStatus) -> Self {
        Self {
            top,
            state: match status.validity {
                Validity::Valid => "valid",
                Validity::Invalid => "invalid",
                Validity::Empty => "empty",
            },
            chunk: status.chunk,
            changed_chunks: status.changed,
            changed: status.changed.saturating_mul(status.chunk.into()),
            used: status.used,
            size: status.size,
            allocated: status.allocated,
        }
    }

    pub(super) fn text(&self, validity: Validity) -> String {
        let top = &self.top;
        match validity {
            Validity::Valid => {}
            Validity::Empty => {
                return format!("{top}: empty: the first overlay on it makes a store of it");
            }
            Validity::Invalid => {
                return format!(
                    "{top}: invalid: the kernel gave it up because it was full or failed, and its \
                     changes cannot be trusted; remove it to start over from the base"
                );
            }
        }
        let row = |name: &str, value: String| [format!("  {name}"), value];
        let chunk = HumanBytes(self.chunk.into());
        let mut rows = vec![
            row(
                "changed",
                format!(
                    "{} in {} chunks",
                    HumanBytes(self.changed),
                    self.changed_chunks
                ),
            ),
            row(
                "used",
                format!(
                    "{} of {} ({})",
                    HumanBytes(self.used),
                    HumanBytes(self.size),
                    share(self.used, self.size)
                ),
            ),
        ];
        rows.extend(
            self.allocated
                .map(|bytes| row("on disk", HumanBytes(bytes).to_string())),
        );
        format!("{top}: valid, chunks of {chunk}\n{}", columns(&rows))
    }
}

/// `part` of `whole` in percent, as text.
pub(super) fn share(part: u64, whole: u64) -> String {
    let per_mille = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

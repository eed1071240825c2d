//! `outboard array grow`: another number of copies or members, another chunk, layout, level or consistency policy.
//!
//! A reshape is carried out by the process that has the array: users read and write meanwhile. Where it is ended early, the next process
//! that opens the array continues it, outboard or Linux. `--continue` sends an empty form, which continues a paused one. Another level is given there, too; given members, one
//! that needs more than the parity of others is given by their superblocks, before the array is opened.

use nodes::array::format::Level;
use nodes::array::is_changed_in_use;

use super::outcome::{Change, Waits, Whose, apply};
use super::target::ArrayArgs;
use super::words;
use crate::arrays::report::ArrayReport;
use crate::control::{ArrayStep, NewPolicy};
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::Format;

/// Arguments of `array grow`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("form").required(true).multiple(true)))]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// How many copies the mirror is to have; spares fill new places
    #[arg(long, value_name = "N", group = "form", conflicts_with_all = ["devices", "chunk", "layout"], value_parser = clap::value_parser!(u32).range(1..))]
    copies: Option<u32>,

    /// How many members an array with parity is to have: spares become members, and data are spread over all
    #[arg(long, value_name = "N", group = "form", visible_alias = "raid-devices", value_parser = clap::value_parser!(u32).range(1..))]
    devices: Option<u32>,

    /// The chunk that an array with parity is to have
    #[arg(long, short, value_name = "SIZE", group = "form")]
    chunk: Option<ByteSize>,

    /// Where parity of level 5 or 6 is to be, by mdadm's names: left-symmetric, right-asymmetric, parity-last …
    #[arg(long, value_name = "LAYOUT", group = "form")]
    layout: Option<String>,

    /// The level that the array is to have, without moving data: from 5 to 6, where a spare gets the second parity, from 4 to 5, from 1
    /// to 5 of two members, from 0 to 4 or 5, which a disk is added to then, and back
    #[arg(long, short, value_name = "LEVEL", group = "form", conflicts_with_all = ["copies", "devices", "chunk", "layout"], value_parser = words::level)]
    level: Option<Level>,

    /// Go on with a reshape that is paused, since something could not be read
    #[arg(long = "continue", group = "form", conflicts_with_all = ["copies", "devices", "chunk", "layout", "level", "consistency_policy"])]
    continues: bool,

    /// A file that is none of the array's: rows are backed up in it before they are written over, where --chunk or --layout find no free
    /// space before the data; removed in the end. With --continue, given members: rows are restored from it, as outboard or mdadm left it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["copies", "level", "consistency_policy"])]
    backup_file: Option<String>,

    /// What keeps the array consistent over a power cut, by mdadm's names: ppl (level 5, closes the write hole), bitmap or resync
    /// (neither). The members are used meanwhile
    #[arg(long, short = 'k', value_name = "POLICY", hide_possible_values = true, group = "form", conflicts_with_all = ["copies", "devices", "chunk", "layout", "level", "continues"])]
    consistency_policy: Option<NewPolicy>,

    #[command(flatten)]
    waits: Waits,
}

/// Grows.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let mut array = args.array.clone();
    if args.continues {
        array.how.backup_file.clone_from(&args.backup_file);
    }
    apply(&array, args, args.waits, format)
}

impl Change for Args {
    fn step(&self, report: &ArrayReport, _: Whose) -> Result<Option<ArrayStep>, Failure> {
        if let Some(parts) = self.copies {
            return Ok(Some(ArrayStep::Grow { parts }));
        }
        if let Some(policy) = self.consistency_policy {
            return Ok(Some(ArrayStep::Policy { policy }));
        }
        if let Some(level) = self.level {
            let level = level.number();
            return Ok(Some(ArrayStep::Level { level }));
        }
        let layout = self.layout.as_deref().map(|text| layout(report, text));
        // One that is restored from is open by now.
        let begins = self.backup_file.as_deref().filter(|_| !self.continues);
        let backup_file = begins.map(absolute);
        Ok(Some(ArrayStep::Reshape {
            parts: self.devices,
            layout: layout.transpose()?,
            chunk: self.chunk.map(|size| size.0),
            backup_file: backup_file.transpose()?,
        }))
    }

    fn wanted_level(&self) -> Option<Level> {
        self.level
    }

    fn level_of_members(&self, report: &ArrayReport) -> Result<Option<Level>, Failure> {
        let Some(to) = self.level else {
            return Ok(None);
        };
        let from = words::level(&report.level).map_err(Failure::usage)?;
        Ok((!is_changed_in_use(from, to)).then_some(to))
    }
}

/// The path of a file as another process finds it.
fn absolute(path: &str) -> Result<String, Failure> {
    let found = std::path::absolute(path);
    let found = found.map_err(|error| Failure::because(format!("cannot use {path}"), &error))?;
    let text = found.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("the path of {path} is not UTF-8")))
}

/// A layout of the array's level, as md's number.
fn layout(report: &ArrayReport, text: &str) -> Result<u32, Failure> {
    let level = words::level(&report.level).map_err(Failure::usage)?;
    words::layout_of(level, text)
}

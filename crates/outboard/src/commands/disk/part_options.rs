//! `--part SIZE:TYPE[:NAME]` and the `--fs` after it: the partition options of `disk create`.
//!
//! Of repeated options clap keeps the order within each, and the place of each on the command line:
//! a `--fs` belongs to the `--part` before it, and to the whole disk where there is none.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::mkfs::Filesystem;
use crate::cli::conflict;
use crate::graph::ByteSize;

/// A requested partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartOption {
    /// `None` for the rest of the disk.
    pub(super) size: Option<ByteSize>,
    /// The type, which only means something in a kind of table.
    pub(super) kind: String,
    /// Its name, or nothing.
    pub(super) label: String,
    /// What is made in it.
    pub(super) filesystem: Option<Filesystem>,
}

/// All `--part` and `--fs` of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PartOptions {
    /// The filesystem of a disk without partitions.
    pub(super) whole: Option<Filesystem>,
    /// In their order.
    pub(super) parts: Vec<PartOption>,
}

const PART: &str = "part";
const FS: &str = "fs";

impl PartOption {
    fn parse(text: &str) -> Result<Self, String> {
        let mut fields = text.splitn(3, ':');
        let (size, kind) = (fields.next(), fields.next());
        let label = fields.next().unwrap_or_default().to_owned();
        let (Some(size), Some(kind)) = (size, kind) else {
            return Err("SIZE:TYPE is wanted, such as 512M:efi or rest:linux".to_owned());
        };
        if kind.is_empty() {
            return Err("its type is missing, such as linux or efi".to_owned());
        }
        let size = match size {
            "rest" => None,
            size => Some(
                size.parse()
                    .map_err(|error| format!("`{size}` is neither a size nor `rest`: {error}"))?,
            ),
        };
        Ok(Self {
            size,
            kind: kind.to_owned(),
            label,
            filesystem: None,
        })
    }
}

impl Args for PartOptions {
    fn augment_args(command: Command) -> Command {
        let part = Arg::new(PART)
            .long(PART)
            .value_name("SIZE:TYPE[:NAME]")
            .action(ArgAction::Append)
            .value_parser(PartOption::parse)
            .help("Make a partition: 512M:efi, rest:linux:root… (TYPE: a name, a GUID, or 0x83)");
        let fs = Arg::new(FS)
            .long(FS)
            .value_name("TYPE")
            .action(ArgAction::Append)
            .value_parser(Filesystem::parse)
            .help("Make a filesystem: in the partition before it, or on the whole disk");
        command.arg(part).arg(fs)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PartOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let parts = placed::<PartOption>(matches, PART);
        let filesystems = placed::<Filesystem>(matches, FS);
        let mut all = Self {
            whole: None,
            parts: parts.iter().map(|(_, part)| part.clone()).collect(),
        };
        for (place, filesystem) in filesystems {
            let before = parts.iter().take_while(|(part, _)| *part < place).count();
            let of_part = before
                .checked_sub(1)
                .and_then(|last| all.parts.get_mut(last));
            let target = match of_part {
                Some(part) => &mut part.filesystem,
                None if parts.is_empty() => &mut all.whole,
                None => return Err(wrong("--fs belongs behind the --part that it is for")),
            };
            if let Some(other) = target.replace(filesystem) {
                let (one, other) = (other.name(), filesystem.name());
                let what = format!("--fs {one} and --fs {other} are for the same place");
                return Err(wrong(&what));
            }
        }
        Ok(all)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// All values of an option with their places on the command line.
fn placed<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<(usize, T)> {
    let places = matches.indices_of(name).into_iter().flatten();
    let values = matches.get_many::<T>(name).into_iter().flatten().cloned();
    places.zip(values).collect()
}

fn wrong(what: &str) -> clap::Error {
    let next =
        "each --part may have one behind it: --part 512M:efi --fs vfat --part rest:linux --fs ext4";
    conflict(what.to_owned(), next)
}

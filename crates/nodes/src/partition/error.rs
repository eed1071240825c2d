//! Why a table cannot be read, and why a partition is not opened.

use block::IoError;

use super::Scheme;
use super::gpt::GptFault;
use crate::linear::LinearError;

/// A partition table that cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TableError {
    /// The disk cannot be read.
    #[error("the partition table cannot be read: {0}")]
    Io(#[from] IoError),
    /// Both copies of a GPT are damaged.
    #[error(
        "the GPT is damaged, and so is its backup (primary: {primary}; backup: {backup}): nothing of it is used"
    )]
    Gpt {
        /// What is wrong with the primary one.
        primary: GptFault,
        /// What is wrong with the backup.
        backup: GptFault,
    },
    /// The logical partitions of an MBR lead back to where they were before.
    #[error(
        "the logical partitions of the MBR go round in a circle (at byte {at}): nothing of it is used"
    )]
    Circle {
        /// Where the circle closes, bytes.
        at: u64,
    },
    /// There are more logical partitions than Linux takes.
    #[error("the MBR has more than {max} logical partitions: nothing of it is used")]
    TooManyLogical {
        /// The limit.
        max: usize,
    },
}

/// A partition that was not opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PartitionError {
    /// The table cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// There is none.
    #[error("the disk has no partition table")]
    NoTable,
    /// The table has no such partition.
    #[error("the disk has no partition {number}: its {scheme} has {}", listed(.present))]
    NoSuch {
        /// The number of the request.
        number: u32,
        /// Of which table.
        scheme: Scheme,
        /// The numbers that there are.
        present: Vec<u32>,
    },
    /// An extended partition holds others and no data.
    #[error(
        "partition {number} is an extended partition, which holds the logical ones: open one of those (from 5)"
    )]
    Extended {
        /// Its number.
        number: u32,
    },
    /// What the table says of it makes no sense.
    #[error("partition {number} {fault}: it is not opened, see `outboard inspect`")]
    Unusable {
        /// Its number.
        number: u32,
        /// Why.
        fault: super::EntryFault,
    },
    /// The disk's blocks are larger than the table's.
    #[error("partition {number}: {source}")]
    Window {
        /// Its number.
        number: u32,
        /// Why.
        source: LinearError,
    },
}

fn listed(numbers: &[u32]) -> String {
    if numbers.is_empty() {
        return "none".to_owned();
    }
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(", ")
}

//! Tests of tables: their text, the disks made of them, and what is remarked on.

mod disks;
mod text;

use super::{DmTable, parse};

/// Study D's table: four flash drives in a row, one of which has a sector more.
const FOUR_DRIVES: &str = "\
0 121077760 linear /dev/sda 0
121077760 121077760 linear /dev/sdb 0
242155520 121077761 linear /dev/sdc 0
363233281 483321640 linear /dev/sdd 0
";

fn table(text: &str) -> DmTable {
    parse(text).unwrap_or_else(|e| panic!("{text:?}: {e}"))
}

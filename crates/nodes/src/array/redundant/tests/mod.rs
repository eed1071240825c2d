//! Tests of mirrors.

mod bad;
mod bits;
mod close;
mod commits;
mod faults;
mod fitting_columns;
mod journal;
pub(in crate::array) mod kit;
mod layout;
mod logged_rows;
mod member_table;
mod model;
mod order;
mod ppl;
mod ppl_lost_member;
mod range_locks;
mod regions;
mod restart;
mod rows;
mod rows_bad;
mod rows_gather;
mod rows_read;
mod rows_send;
mod rows_stop;
mod steady_load;
mod timeouts;
mod windows;

use std::sync::Arc;

use block::Node;
use testkit::MemDisk;

use self::kit::DISK;

/// So many disks in memory.
fn disks(count: usize) -> Vec<Node> {
    let disk = |_| Arc::new(MemDisk::new(DISK)) as Node;
    (0..count).map(disk).collect()
}

//! Any text as a device-mapper table. What is understood describes a disk without gaps, the sizes of which add
//! up, and becomes that disk over memory or is refused at a place within the text.
#![no_main]

use std::sync::Arc;

use block::Node;
use libfuzzer_sys::fuzz_target;
use nodes::Null;
use nodes::dm::{TableError, assemble, parse, remarks};

/// Size of each disk that a table is put over, bytes.
const DISK_LEN: u64 = 1 << 40;

fuzz_target!(|text: &str| {
    let table = match parse(text) {
        Ok(table) => table,
        Err(error) => return within(text, &error),
    };
    let _told: Vec<String> = remarks(&table).iter().map(ToString::to_string).collect();
    let needs = table.needs().len();
    let disks: Vec<Node> = (0..needs)
        .map(|_| Arc::new(Null::new(DISK_LEN)) as Node)
        .collect();
    match assemble(&table, &disks) {
        Ok(disk) => assert_eq!(disk.geometry().size, table.size()),
        Err(error) => within(text, &error),
    }
});

fn within(text: &str, error: &TableError) {
    assert!(!error.to_string().is_empty());
    assert!(error.place.line >= 1 && error.place.line <= text.lines().count().max(1));
}

//! Tests of what the soak believes: what a byte may be, what a script printed, what the kernel reports.

use std::path::Path;

use serde_json::json;

use super::lab::{LabInterval, interval, with_files, words};
use super::programs::replay;
use super::region::{Region, content};
use super::watch::{Socket, socket};
use super::worlds;

#[test]
fn an_acknowledged_write_is_what_a_read_must_show() {
    let mut region = Region::new(100, 32);
    region.wrote(8, &content(7, 16));
    assert!(region.read(8, &content(7, 16)).is_ok());
    let error = region.read(8, &content(6, 16)).unwrap_err().to_string();
    assert!(error.starts_with("byte 111 is 0x06"), "{error}");
}

#[test]
fn an_unacknowledged_write_may_have_happened_until_a_read_shows_it() {
    let mut region = Region::new(0, 32);
    region.may_have_written(0, content(1, 32));
    assert!(region.read(0, &[0; 8]).is_ok());
    assert!(region.read(0, &content(1, 8)).is_err(), "it landed late");
    assert!(region.read(8, &content(1, 32)[8..16]).is_ok());
    assert!(region.read(8, &[0; 8]).is_err(), "it was taken back");
    assert!(region.read(16, &[0xff; 8]).is_err(), "no client wrote that");
}

#[test]
fn an_acknowledged_write_ends_what_may_be_below_it_and_nothing_beside_it() {
    let mut region = Region::new(0, 32);
    region.may_have_written(0, content(1, 32));
    region.wrote(8, &content(2, 8));
    assert!(region.read(8, &content(1, 32)[8..16]).is_err());
    assert!(region.read(0, &content(1, 8)).is_ok());
    assert!(region.read(16, &content(1, 32)[16..]).is_ok());
}

#[test]
fn the_last_request_of_a_script_may_have_happened() {
    let mut region = Region::new(0, 64);
    let last = replay(&mut region, "w 0 16 3\n.\nz 0 8\n.\nw 32 8 4\nw 48").unwrap();
    assert_eq!(last, 4);
    assert!(region.read(0, &[0; 8]).is_ok());
    assert!(region.read(8, &content(3, 16)[8..]).is_ok());
    assert!(region.read(32, &content(4, 8)).is_ok());
    assert!(region.read(48, &content(4, 8)).is_err());
}

#[test]
fn a_line_of_the_kernel_names_both_ports_and_the_socket() {
    let line = "   1: 0100007F:8AE3 0100007F:2A39 01 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 20 4 30 10 -1";
    let expected = Socket {
        here: 0x8ae3,
        there: 0x2a39,
        inode: 4242,
    };
    assert_eq!(socket(line), Some(expected));
}

#[test]
fn worlds_are_as_many_as_requested_from_a_seed_on() {
    let variables = worlds::variables(100_000, 7);
    let expected = [
        ("OUTBOARD_WORLDS", "100000".to_owned()),
        ("OUTBOARD_WORLDS_FROM", "7".to_owned()),
    ];
    assert_eq!(variables, expected);
}

#[test]
fn worlds_of_one_kind_do_not_reach_the_seeds_of_the_next() {
    assert_eq!(worlds::last_seed(2000, 0).unwrap(), 1999);
    assert_eq!(worlds::last_seed(1, 7).unwrap(), 7);
    let last = (1 << 32) - 1;
    assert_eq!(worlds::last_seed(1, last).unwrap(), last);
    for (count, seed) in [(2, last), (1, 1 << 32), (1, u64::MAX)] {
        let error = worlds::last_seed(count, seed).unwrap_err().to_string();
        let expected = format!("--seed {seed} and --count {count}: ");
        assert!(error.starts_with(&expected), "{error}");
        assert!(error.ends_with("end before 4294967296"), "{error}");
    }
}

#[test]
fn fio_by_hand_has_the_flags_of_the_lab_and_another_file() {
    let line = "fio --name=read '--filename=/mnt/.outboard-lab-x/data' --rw=randread --randseed=7 --output=/tmp/a/measure.json";
    let words = with_files(
        &words(line),
        Path::new("/mnt/by-hand"),
        Path::new("/tmp/fio.json"),
    );
    let expected =
        "fio --name=read --filename=/mnt/by-hand --rw=randread --randseed=7 --output=/tmp/fio.json";
    assert_eq!(words.join(" "), expected);
}

#[test]
fn the_interval_of_five_blocks_holds_its_ends_and_that_of_fewer_is_none() {
    let row = |n: u64| json!({ "headline": { "median": 4.0, "low": 3.0, "high": 6.0, "n": n } });
    let found = interval(&row(5)).unwrap();
    let (median, low, high) = (4.0, 3.0, 6.0);
    assert_eq!(found, LabInterval { median, low, high });
    let inside = [2.9, 3.0, 6.0, 6.1].map(|rate| found.contains(rate));
    assert_eq!(inside, [false, true, true, false]);
    assert_eq!(interval(&row(4)), None);
    assert_eq!(interval(&json!({ "headline": null })), None);
}

//! What stories make of what they saw. They are run by the tests of the binary, which they start.

use super::*;
use crate::tools::pull::{Look, Seen};
use crate::tools::{clients, pull, resync};

#[test]
fn jains_index_is_one_for_equals_and_one_in_n_for_one_that_gets_all() {
    assert_eq!(clients::fairness(&[5.0, 5.0, 5.0, 5.0]), 1.0);
    assert_eq!(clients::fairness(&[8.0, 0.0, 0.0, 0.0]), 0.25);
    assert_eq!(clients::fairness(&[0.0]), 1.0);
}

#[test]
fn clients_are_counted_until_the_last_is_done() {
    let job = include_str!("../../fio/fixtures/random-read.json");
    let mut quick = crate::fio::parse(job).unwrap();
    quick.bytes = Bytes(100_000_000);
    quick.runtime = Nanos::from_ms(1000);
    let mut slow = quick.clone();
    slow.runtime = Nanos::from_ms(4000);
    let figures = clients::figures(&[quick, slow]).unwrap();
    assert_eq!(figures[0].name, "together");
    assert_eq!(figures[0].value, 50e6);
    assert_eq!(value(&figures, "slowest client"), 25e6);
    assert_eq!(value(&figures, "first done"), 1e9);
    assert_eq!(value(&figures, "last done"), 4e9);
    assert_eq!(clients::figures(&[]), None);
}

#[test]
fn a_drive_that_nobody_read_from_is_told_to_nobody() {
    let whole = Look {
        lost: Bytes(0),
        told: None,
    };
    let seen = Seen {
        pulled: whole,
        plugged: whole,
        touched: true,
        wrote_pulled: false,
        wrote_plugged: true,
    };
    let figures = pull::figures(&seen);
    assert_eq!(figures[0].name, "lost while pulled");
    assert_eq!(value(&figures, "an empty file could be made"), 1.0);
    assert_eq!(value(&figures, "data could be written while pulled"), 0.0);
    let told = figures.iter().find(|one| one.name.contains("told"));
    assert_eq!(told, None);
}

#[test]
fn what_a_resync_leaves_of_the_load_is_a_part_of_it() {
    let seen = resync::Seen {
        resync: Nanos::from_ms(2000),
        alone: 1000.0,
        beside: Some(400.0),
    };
    let figures = resync::figures(&seen, Bytes(64 << 20));
    assert_eq!(figures[0].name, "until both are alike");
    assert_eq!(figures[0].better, Better::Lower);
    assert_eq!(value(&figures, "copied"), f64::from(32 << 20));
    assert_eq!(value(&figures, "left of the load"), 0.4);
}

#[test]
fn stories_that_make_no_sense_are_refused_by_name() {
    let wrong = [
        ("tool = \"pull\"\ndrive = \"e\"\nbytes = \"32M\"", "drive"),
        ("tool = \"pull\"\ndrive = \"a\"\nbytes = \"1M\"", "bytes"),
        ("tool = \"resync\"\nbytes = \"1M\"", "bytes"),
        (
            "tool = \"clients\"\nclients = 0\nbytes = \"1M\"\nblock_size = \"4K\"\ndepth = 1",
            "clients",
        ),
        (
            "tool = \"clients\"\nclients = 1\nbytes = \"1M\"\nblock_size = \"2M\"\ndepth = 1",
            "block_size",
        ),
    ];
    for (text, word) in wrong {
        let tool: Tool = toml::from_str(text).unwrap();
        let error = tool.check().unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}

//! What the command line alone decides.

use clap::Parser as _;

use lab_drivers::doctor::DoctorTarget;

use super::Args;
use crate::cli::{Cli, Command};

fn args(words: &[&str]) -> Args {
    let words = ["outboard", "doctor"]
        .into_iter()
        .chain(words.iter().copied());
    match Cli::try_parse_from(words).expect("it is right").command {
        Command::Doctor(args) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_size_that_no_request_can_have_is_refused() {
    for size in ["0", "1000", "65M"] {
        let args = args(&["memory(1M)", "--block-size", size]);
        assert!(args.check().is_err(), "{size}");
    }
    assert!(args(&["memory(1M)", "--block-size", "4K"]).check().is_ok());
}

/// A disk behind a cache file was examined as one of this machine, and no remark reported that the file had no part in it.
#[test]
fn what_is_behind_a_cache_file_is_examined_with_a_remark() {
    let examined = |text: &str| super::target(&args(&[text])).expect("a target");
    let (target, left_out) = examined("cache(nbd://nas/root, /var/cache/root)");
    let DoctorTarget::Export(export) = target else {
        panic!("{target:?}");
    };
    assert_eq!(export.to_string(), "nbd://nas/root");
    let left_out = left_out.expect("a remark");
    assert!(
        left_out
            .starts_with("/var/cache/root was not opened: what was measured is nbd://nas/root,"),
        "{left_out}"
    );
    let (target, left_out) = examined("partition(cache(nbd://nas/root, /var/cache/root), 1)");
    assert!(matches!(target, DoctorTarget::Disk(_)), "{target:?}");
    assert!(left_out.is_some());
    assert_eq!(examined("nbd://nas/root").1, None);
}

#[test]
fn disks_and_exports_are_never_written() {
    for target in ["memory(1M)", "nbd://host/x"] {
        let args = args(&[target, "--write"]);
        let refused = super::for_blocks_only(&args).expect_err("it is refused");
        assert!(refused.line().contains("only read"), "{}", refused.line());
    }
}

//! What the command line alone decides.

use clap::Parser as _;

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

#[test]
fn disks_and_exports_are_never_written() {
    for target in ["memory(1M)", "nbd://host/x"] {
        let args = args(&[target, "--write"]);
        let refused = super::for_blocks_only(&args).expect_err("it is refused");
        assert!(refused.line().contains("only read"), "{}", refused.line());
    }
}

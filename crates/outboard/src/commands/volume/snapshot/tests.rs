//! Tests of how large stores are to be.

use super::store_amount::{StoreAmountArgs, StoreBase};

/// A command line with the two options.
#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    amount: StoreAmountArgs,
}

fn extents(words: &[&str]) -> Option<u64> {
    let words = std::iter::once(&"x").chain(words);
    let line: Line = clap::Parser::try_parse_from(words).ok()?;
    let base = StoreBase {
        extent: 4 << 20,
        free: 150,
        max: 41,
        has: 10,
    };
    line.amount.extents(base).ok()
}

#[test]
fn the_size_of_a_store_is_written_as_with_lvcreate() {
    assert_eq!(extents(&["--size", "20M"]), Some(5));
    assert_eq!(extents(&["-L", "+1"]), Some(11));
    assert_eq!(extents(&["-l", "7"]), Some(7));
    assert_eq!(extents(&["-l", "10%ORIGIN"]), Some(5), "rounded up");
    assert_eq!(extents(&["-l", "100%origin"]), Some(41));
    assert_eq!(extents(&["-l", "50%FREE"]), Some(85));
    assert_eq!(extents(&["--extents", "+3"]), Some(13));
    for wrong in [
        &["-l", "0%ORIGIN"][..],
        &["-l", "101%FREE"],
        &["-l", "10%"],
        &["-l", "10%VG"],
        &["-L=-5M"],
        &["-L", "1G", "-l", "1"],
        &[],
    ] {
        assert_eq!(extents(wrong), None, "{wrong:?}");
    }
}

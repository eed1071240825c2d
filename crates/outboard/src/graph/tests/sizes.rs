//! Sizes.

use proptest::prelude::*;

use crate::graph::ByteSize;

fn bytes(text: &str) -> Option<u64> {
    text.parse::<ByteSize>().ok().map(|size| size.0)
}

#[test]
fn units_are_powers_of_1024_unless_they_end_in_a_plain_b() {
    let cases = [
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("64K", 65_536),
        ("64k", 65_536),
        ("64KiB", 65_536),
        ("64kb", 64_000),
        ("1.5G", 3 << 29),
        ("0.5K", 512),
        ("20GiB", 20 << 30),
        ("500MB", 500_000_000),
        ("2T", 2 << 40),
        ("1P", 1 << 50),
        ("7E", 7 << 60),
        ("7.50E", 15 << 59),
    ];
    for (text, expected) in cases {
        assert_eq!(bytes(text), Some(expected), "{text}");
    }
}

#[test]
fn what_is_no_size_is_refused() {
    for text in [
        "",
        "G",
        "-1",
        "+1",
        "1.",
        ".5G",
        "1.2.3G",
        "1 G",
        "1GG",
        "1Gi B",
        "1Q",
        "1.3B",
        "0.1K",
        "8E",
        "16E",
        "99999999999999999999999999999999999999999E",
        "1é",
        "１",
    ] {
        assert_eq!(bytes(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn writing_out_and_reading_gives_the_same(size in 0..=i64::MAX.unsigned_abs(), shift in 0..60) {
        for size in [size, (size >> shift) << shift] {
            prop_assert_eq!(bytes(&ByteSize(size).to_string()), Some(size));
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>(), odd in "[0-9.]{0,40}[kmgtpeib]{0,4}") {
        let _ = bytes(&text);
        let _ = bytes(&odd);
    }
}

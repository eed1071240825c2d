//! Times.

use std::time::Duration;

use proptest::prelude::*;

use crate::graph::time::{Time, TimeError};

fn nanos(text: &str) -> Result<u128, TimeError> {
    text.parse::<Time>().map(|time| time.0.as_nanos())
}

#[test]
fn a_time_is_a_number_and_a_unit() {
    let cases = [
        ("0s", 0),
        ("2ms", 2_000_000),
        ("1.5s", 1_500_000_000),
        ("250us", 250_000),
        ("0.5us", 500),
        ("7ns", 7),
        ("2m", 120_000_000_000),
        ("24h", 86_400_000_000_000),
        ("1.50m", 90_000_000_000),
    ];
    for (text, expected) in cases {
        assert_eq!(nanos(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_time_is_refused_with_its_reason() {
    let cases = [
        ("", TimeError::NoNumber),
        ("ms", TimeError::NoNumber),
        ("-1ms", TimeError::NoNumber),
        (".5s", TimeError::NoNumber),
        ("1.s", TimeError::NoNumber),
        ("1.2.3s", TimeError::NoNumber),
        ("5", TimeError::NoUnit),
        ("5 ms", TimeError::Unit(" ms".to_owned())),
        ("5d", TimeError::Unit("d".to_owned())),
        ("5MS", TimeError::Unit("MS".to_owned())),
        ("0.5ns", TimeError::Fraction),
        ("25h", TimeError::TooLong),
        ("99999999999999999999h", TimeError::TooLong),
    ];
    for (text, expected) in cases {
        assert_eq!(nanos(text), Err(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn writing_out_and_reading_gives_the_same(nanos in 0..=86_400_000_000_000_u64, unit in 0..5_usize) {
        let unit = [1_u64, 1000, 1_000_000, 1_000_000_000, 60_000_000_000][unit];
        for nanos in [nanos, nanos / unit * unit] {
            let time = Time(Duration::from_nanos(nanos));
            prop_assert_eq!(time.to_string().parse::<Time>(), Ok(time));
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>(), odd in "[0-9.]{0,40}[mshun]{0,3}") {
        for text in [text, odd] {
            if let Ok(Time(time)) = text.parse() {
                prop_assert!(time <= Duration::from_secs(86_400), "{}", text);
            }
        }
    }
}

//! Golden figures of the studies, and properties of the printed forms.

use proptest::prelude::*;

use super::*;

#[test]
fn study_c_took_940_megabits_for_117_mebibytes_and_they_are_112() {
    let wire = BitRate::from_mbit(940).bytes_per_second();
    assert_eq!(format!("{:.2}", wire.mib()), "112.06");
    assert_eq!(format!("{:.1}", wire.mb()), "117.5");
}

#[test]
fn tcp_over_a_gigabit_wire_carries_117_7_megabytes_or_112_2_mebibytes() {
    let goodput = BitRate::from_mbit(1000).tcp_goodput();
    assert_eq!(format!("{:.1}", goodput.mb()), "117.7");
    assert_eq!(format!("{:.1}", goodput.mib()), "112.2");
}

#[test]
fn study_a_wrote_61956_kib_in_60070_ms_which_is_1031_kib_per_second() {
    let rate = Rate::of(Bytes(61_956 * 1024), Nanos::from_ms(60_070)).unwrap();
    assert_eq!(round((rate.0 / 1024.0).floor()), 1031);
}

#[test]
fn no_time_gives_no_rate() {
    assert_eq!(Rate::of(Bytes(1), Nanos(0)), None);
}

#[test]
fn a_rate_is_printed_in_both_units() {
    assert_eq!(
        Rate(1_048_576.0 * 100.0).to_string(),
        "105 MB/s (100 MiB/s)"
    );
}

#[test]
fn a_time_is_printed_with_three_digits_in_the_unit_that_suits() {
    let shown: Vec<String> = [812, 97_280, 12_387_000, 2_600_470_000, 999_600_000]
        .map(|ns| Nanos(ns).to_string())
        .to_vec();
    assert_eq!(shown, ["812 ns", "97.3 us", "12.4 ms", "2.60 s", "1.00 s"]);
}

#[test]
fn whole_sizes_stay_whole() {
    assert_eq!(Bytes(512 * MIB).to_string(), "512 MiB");
    assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
    assert_eq!(Bytes(17).to_string(), "17 B");
}

#[test]
fn numbers_are_grouped_by_three() {
    assert_eq!(grouped(19_156.0), "19\u{202f}156");
    assert_eq!(grouped(-1_234_567.0), "-1\u{202f}234\u{202f}567");
    assert_eq!(ungrouped("-1\u{202f}234\u{202f}567 MB/s"), "-1234567 MB/s");
    assert_eq!(grouped(-0.2), "0");
    assert_eq!(significant(99.96), "100");
}

proptest! {
    #[test]
    fn three_digits_are_within_half_a_percent(value in 1.0f64..1e12) {
        let shown: f64 = ungrouped(&significant(value)).parse().unwrap();
        prop_assert!((shown - value).abs() <= value * 0.005 + 1e-9);
    }

    #[test]
    fn mebibytes_are_always_fewer_than_megabytes(rate in 1.0f64..1e12) {
        prop_assert!(Rate(rate).mib() < Rate(rate).mb());
    }
}

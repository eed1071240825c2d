//! Tests of the output of `overlay status`.

use nodes::{StoreStatus, Validity};

use super::status::{Report, share};

const STATUS: StoreStatus = StoreStatus {
    validity: Validity::Valid,
    size: 1 << 30,
    allocated: Some(12 << 20),
    chunk: 4096,
    changed: 3072,
    used: 12_640_256,
};

fn text(status: StoreStatus) -> String {
    Report::of("today.cow".to_owned(), &status).text(status.validity)
}

#[test]
fn the_status_of_a_store_has_what_changed_and_what_is_left() {
    assert_eq!(
        text(STATUS),
        "today.cow: valid, chunks of 4.00 KiB\n  changed  12.00 MiB in 3072 chunks\n  used     12.05 MiB of 1.00 GiB (1.1 %)\n  on disk  12.00 MiB"
    );
    let device = StoreStatus {
        allocated: None,
        ..STATUS
    };
    assert!(!text(device).contains("on disk"));
}

#[test]
fn a_store_without_valid_changes_says_so() {
    let with = |validity| text(StoreStatus { validity, ..STATUS });
    assert!(with(Validity::Invalid).starts_with("today.cow: invalid: the kernel gave it up"));
    assert!(with(Validity::Empty).starts_with("today.cow: empty"));
}

#[test]
fn a_share_is_shown_in_tenths_of_a_percent() {
    assert_eq!(share(0, 0), "0.0 %");
    assert_eq!(share(1, 3), "33.3 %");
    assert_eq!(share(u64::MAX, u64::MAX), "100.0 %");
}

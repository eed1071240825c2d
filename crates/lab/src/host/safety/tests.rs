//! Each named way to destroy data by accident, tried: on made-up systems below a temporary directory,
//! and on real loop devices where the test may make them.

mod made_up;
mod real;

use super::*;

fn typed(serials: &[&str]) -> Vec<String> {
    serials.iter().map(|serial| (*serial).to_owned()).collect()
}

fn facts_of(against: Vec<Reason>) -> DeviceFacts {
    DeviceFacts {
        path: "/dev/sdb".into(),
        real: "/dev/sdb".into(),
        kind: DeviceKind::Block,
        against,
        holds_data: false,
        serial: Some("WD-1".into()),
    }
}

#[test]
fn an_unused_device_is_written_only_when_its_serial_was_typed() {
    let facts = facts_of(Vec::new());
    assert_eq!(decide(&facts, &typed(&["WD-0", "WD-1"])), Ok(()));
    assert_eq!(
        decide(&facts, &[]).unwrap_err().to_string(),
        "/dev/sdb is not written: all that is on it would be lost; if that is meant, add --write-serial 'WD-1'"
    );
    assert_eq!(
        decide(&facts, &typed(&["WD-2"])).unwrap_err().reasons,
        [Reason::OtherSerial {
            typed: "WD-2".into(),
            serial: "WD-1".into()
        }]
    );
}

#[test]
fn a_device_without_a_serial_is_not_written_even_with_an_empty_one_typed() {
    for serial in [None, Some(String::new())] {
        let facts = DeviceFacts {
            serial,
            ..facts_of(Vec::new())
        };
        assert_eq!(
            decide(&facts, &typed(&[""])).unwrap_err().reasons,
            [Reason::NoSerial]
        );
    }
}

#[test]
fn no_serial_overrides_a_reason_and_none_is_asked_for_then() {
    let reasons = [
        Reason::Mounted {
            device: "sdb1".into(),
            at: "/srv".into(),
        },
        Reason::Swap {
            device: "sdb2".into(),
        },
        Reason::Held {
            device: "sdb3".into(),
            by: "md0".into(),
        },
        Reason::Exclusive {
            device: "/dev/sdb".into(),
        },
        Reason::Open {
            device: "/dev/sdb".into(),
            by: "qemu 7".into(),
        },
        Reason::Signature {
            device: "/dev/sdb".into(),
            kind: "linux_raid_member".into(),
        },
        Reason::Unknown {
            what: "blkid cannot be run".into(),
        },
    ];
    for reason in reasons {
        let refused = decide(&facts_of(vec![reason.clone()]), &typed(&["WD-1"])).unwrap_err();
        assert_eq!(refused.reasons, [reason]);
        assert!(!refused.to_string().contains("--write-serial"), "{refused}");
    }
}

#[test]
fn a_file_with_data_and_what_is_neither_file_nor_device_are_refused() {
    let file = DeviceFacts {
        kind: DeviceKind::File,
        serial: None,
        ..facts_of(Vec::new())
    };
    assert_eq!(decide(&file, &[]), Ok(()));
    let full = DeviceFacts {
        holds_data: true,
        ..file.clone()
    };
    assert_eq!(decide(&full, &[]).unwrap_err().reasons, [Reason::HoldsData]);
    let other = DeviceFacts {
        kind: DeviceKind::Other,
        ..file
    };
    assert_eq!(decide(&other, &[]).unwrap_err().reasons, [Reason::Neither]);
}

#[test]
fn three_reasons_are_named_and_more_are_counted() {
    let swap = |n: u32| Reason::Swap {
        device: format!("sdb{n}"),
    };
    let refused = decide(&facts_of((1..=5).map(swap).collect()), &[]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "/dev/sdb is not written: sdb1 is swap; sdb2 is swap; sdb3 is swap; and 2 more"
    );
}

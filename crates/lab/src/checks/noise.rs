//! *noise*: something else used the device while it was measured.
//!
//! Caught in: study A, whose Pi shared its network interface with other traffic.

use super::direct::{Residency, Traffic};
use super::{Check, Finding};
use crate::units::Bytes;

/// More than this many times the bytes counted, and someone else moved some of them.
const MOVED_MAX: f64 = 1.25;

/// Holds what the device moved against what fio counted. Without a look into the page cache the
/// excess might be readahead, which is for [`super::direct`] to say.
#[must_use]
pub fn check(
    counted: Bytes,
    traffic: Option<Traffic>,
    residency: Option<Residency>,
) -> Option<Finding> {
    let (traffic, _) = (traffic?, residency?);
    let part = traffic.bytes.0 as f64 / counted.0.max(1) as f64;
    if part <= MOVED_MAX {
        return None;
    }
    Some(Finding::remark(
        Check::Noise,
        format!("the device moved {part:.1} times the bytes counted: something else was using it"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MIB;

    #[test]
    fn a_device_that_moved_more_than_was_counted_was_shared() {
        let traffic = |mib| {
            Some(Traffic {
                bytes: Bytes(mib * MIB),
                requests: mib,
            })
        };
        let looked = Some(Residency {
            sampled: 256,
            resident: 0,
        });
        assert_eq!(check(Bytes(100 * MIB), traffic(110), looked), None);
        let finding = check(Bytes(100 * MIB), traffic(300), looked).unwrap();
        assert!(finding.text.contains("3.0 times"), "{}", finding.text);
        assert_eq!(check(Bytes(100 * MIB), traffic(300), None), None);
        assert_eq!(check(Bytes(100 * MIB), None, looked), None);
    }
}

//! *direct*: a request for O_DIRECT is not always O_DIRECT done.
//!
//! Caught in: study C's "powers of two are 30 % faster". Its block sizes were int(2^(i/5)), of which
//! 11 in 114 are multiples of 4096; on btrfs every other one silently became buffered I/O with
//! readahead, and fio exits 0 and still prints its depth.
//!
//! Before: the alignment that the kernel requires (`STATX_DIOALIGN`). After: what the device says it
//! moved, in requests of what size, and what of the file is in the page cache.

use serde::{Deserialize, Serialize};

use super::phase::FioMeasurement;
use super::{Check, Finding};
use crate::plan::{Direction, Pattern};
use crate::units::Bytes;

/// Below this part of fio's bytes, the device did not move them: a cache did.
const MOVED_MIN: f64 = 0.9;
/// Above this part, random reads were read ahead.
const READ_AHEAD: f64 = 1.5;
/// More of the file than this in the page cache afterwards, and the I/O went through it.
const RESIDENT_MAX: f64 = 0.05;

/// What direct I/O needs on a file; zero where the file has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DioAlign {
    /// Of the buffer's address.
    pub memory: u32,
    /// Of offset and length in the file.
    pub offset: u32,
}

/// What the device under a target did while it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes in the direction that was measured.
    pub bytes: Bytes,
    /// Requests in that direction.
    pub requests: u64,
}

/// Pages of the file that were looked for in the page cache, and found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// Looked at, spread over the file.
    pub sampled: u32,
    /// Found.
    pub resident: u32,
}

impl Residency {
    /// The part that was found.
    #[must_use]
    pub fn part(self) -> f64 {
        if self.sampled == 0 {
            return 0.0;
        }
        f64::from(self.resident) / f64::from(self.sampled)
    }
}

/// Whether requests of `block_size` can be direct at all; no answer where the kernel gives none.
#[must_use]
pub fn possible(block_size: Bytes, align: Option<DioAlign>) -> Option<bool> {
    let offset = u64::from(align?.offset);
    Some(offset != 0 && block_size.0.is_multiple_of(offset))
}

pub(super) fn of_fio(seen: &FioMeasurement<'_>) -> Vec<Finding> {
    let (job, result, evidence) = (seen.job, seen.result, seen.measurement.evidence);
    let residency = evidence.resident_after;
    let before = match result.direct {
        true => before(job.block_size, seen.measurement.facts.dio_align),
        false => None,
    };
    let after = after(&After {
        asked: result.direct,
        direction: result.direction,
        pattern: job.pattern,
        block_size: job.block_size,
        counted: result.bytes,
        traffic: evidence.traffic,
        residency: residency.filter(|found| found.sampled > 0),
    });
    before.into_iter().chain(after).collect()
}

/// Before: the kernel's own word on the block size.
fn before(block_size: Bytes, align: Option<DioAlign>) -> Option<Finding> {
    if possible(block_size, align)? {
        return None;
    }
    let offset = align?.offset;
    let text = if offset == 0 {
        "this file has no direct I/O: the page cache was measured".to_owned()
    } else {
        format!(
            "{block_size} is no multiple of the {offset} B that direct I/O needs here: it was buffered"
        )
    };
    Some(Finding::invalid(Check::Direct, text))
}

/// What is known after one measurement.
#[derive(Debug, Clone, Copy)]
struct After {
    /// Whether O_DIRECT was requested.
    asked: bool,
    /// Which way the bytes went.
    direction: Direction,
    /// Where requests went.
    pattern: Pattern,
    /// Bytes of one request.
    block_size: Bytes,
    /// Bytes that fio counted.
    counted: Bytes,
    /// What the device did, where there is one of the target's own.
    traffic: Option<Traffic>,
    /// What of the file is in the page cache, where the kernel reports it.
    residency: Option<Residency>,
}

/// After: what the device moved and what stayed behind in memory.
fn after(seen: &After) -> Option<Finding> {
    if !seen.asked {
        return Some(Finding::remark(
            Check::Direct,
            "one of the targets has no direct I/O, so the page cache took part",
        ));
    }
    if seen.traffic.is_none() && seen.residency.is_none() {
        return Some(Finding::remark(
            Check::Direct,
            "whether the I/O was direct could not be seen on this filesystem",
        ));
    }
    let invalid = |text: String| Some(Finding::invalid(Check::Direct, text));
    if let Some(residency) = seen.residency.filter(|found| found.part() > RESIDENT_MAX) {
        return invalid(format!(
            "the I/O was not direct: {:.0} % of the file is in the page cache afterwards",
            residency.part() * 100.0
        ));
    }
    let traffic = seen.traffic?;
    let part = traffic.bytes.0 as f64 / seen.counted.0.max(1) as f64;
    if part < MOVED_MIN {
        return invalid(format!(
            "the device moved {:.0} % of the bytes counted: the rest came from or went to a cache",
            part * 100.0
        ));
    }
    // Pages left behind are the better witness; without one, excess reads are taken for readahead.
    let random_read = seen.residency.is_none()
        && seen.pattern == Pattern::Random
        && seen.direction == Direction::Read;
    let mean = traffic.bytes.0 / traffic.requests.max(1);
    if random_read && part > READ_AHEAD && mean > seen.block_size.0 * 2 {
        return invalid(format!(
            "the I/O was not direct: the device read {part:.1} times the bytes counted, {} a request",
            Bytes(mean)
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Level;
    use crate::units::{MIB, round};

    const BTRFS: Option<DioAlign> = Some(DioAlign {
        memory: 512,
        offset: 4096,
    });

    fn random_read() -> After {
        After {
            asked: true,
            direction: Direction::Read,
            pattern: Pattern::Random,
            block_size: Bytes(4096),
            counted: Bytes(100 * MIB),
            traffic: Some(Traffic {
                bytes: Bytes(100 * MIB),
                requests: 25_600,
            }),
            residency: Some(Residency {
                sampled: 256,
                resident: 0,
            }),
        }
    }

    /// The sweep had int(2^(i/5)) for i up to 113.
    #[test]
    fn study_c_swept_114_sizes_of_which_11_could_be_direct() {
        let direct = (0..114)
            .map(|i| Bytes(round(2f64.powf(f64::from(i) / 5.0).floor())))
            .filter(|size| possible(*size, BTRFS) == Some(true))
            .count();
        assert_eq!(direct, 11);
    }

    #[test]
    fn sizes_that_are_aligned_and_no_powers_of_two_are_direct_too() {
        for kib in [12, 96] {
            assert_eq!(before(Bytes(kib * 1024), BTRFS), None);
        }
        let finding = before(Bytes(5_000), BTRFS).unwrap();
        assert_eq!(finding.level, Level::Invalid);
        assert!(finding.text.contains("4096"));
    }

    #[test]
    fn a_kernel_that_does_not_say_is_not_held_against_a_result() {
        assert_eq!(before(Bytes(5_000), None), None);
        assert!(
            before(
                Bytes(4096),
                Some(DioAlign {
                    memory: 0,
                    offset: 0
                })
            )
            .is_some()
        );
    }

    #[test]
    fn a_direct_read_leaves_nothing_behind_and_moves_what_was_counted() {
        assert_eq!(after(&random_read()), None);
    }

    #[test]
    fn buffered_reads_are_seen_by_what_they_leave_in_the_page_cache() {
        let residency = Some(Residency {
            sampled: 256,
            resident: 200,
        });
        let found = after(&After {
            residency,
            ..random_read()
        })
        .unwrap();
        assert!(found.text.contains("78 %"), "{}", found.text);
    }

    #[test]
    fn reads_that_came_from_a_cache_are_seen_by_what_the_device_did_not_move() {
        let traffic = Some(Traffic {
            bytes: Bytes(10 * MIB),
            requests: 2_560,
        });
        let found = after(&After {
            traffic,
            ..random_read()
        })
        .unwrap();
        assert_eq!(found.level, Level::Invalid);
        assert!(found.text.contains("10 %"), "{}", found.text);
    }

    #[test]
    fn readahead_is_seen_by_requests_larger_than_were_made() {
        let traffic = Some(Traffic {
            bytes: Bytes(800 * MIB),
            requests: 6_400,
        });
        let found = after(&After {
            traffic,
            residency: None,
            ..random_read()
        })
        .unwrap();
        assert!(found.text.contains("8.0 times"), "{}", found.text);
    }

    #[test]
    fn what_cannot_be_seen_is_said() {
        let blind = After {
            traffic: None,
            residency: None,
            ..random_read()
        };
        assert_eq!(after(&blind).unwrap().level, Level::Remark);
        assert_eq!(
            after(&After {
                asked: false,
                ..random_read()
            })
            .unwrap()
            .level,
            Level::Remark
        );
    }
}

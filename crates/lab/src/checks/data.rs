//! *data*: what is read was written before, all of it, and neither that nor what is written compresses.
//!
//! Caught in: study A, which made its image with `dd if=/dev/zero` "or fallocate": the one leaves zeroes,
//! which a filesystem or a server may not store; the other leaves nothing at all, and reading it never
//! touches the disk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::phase::FioMeasurement;
use super::{Check, Finding};
use crate::fio::JobResult;
use crate::plan::{Direction, FioJob};
use crate::units::Bytes;

/// Below this part of its size, a file has holes (the last block may be one).
const WHOLE: f64 = 0.98;
/// Bits of a byte below which data compresses. Random data has 7.9 or more in a page.
const BITS_MIN: f64 = 7.0;
/// Bits of a byte below which it is one and the same byte.
const BITS_NONE: f64 = 0.1;

/// Those of fio's options that say what a job writes.
pub(crate) const WRITTEN: [&str; 2] = [ZERO_BUFFERS, COMPRESSED];
const ZERO_BUFFERS: &str = "zero_buffers";
const COMPRESSED: &str = "buffer_compress_percentage";

/// What is known of the data that is read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DataFacts {
    /// Its size.
    pub size: Bytes,
    /// How much of that is data and neither a hole nor allocated and never written, where the
    /// filesystem says so.
    pub written: Option<Bytes>,
    /// Information in a byte of it, in bits ([`bits_per_byte`]), where samples of it could be read.
    pub bits: Option<f64>,
}

pub(super) fn of_fio(seen: &FioMeasurement<'_>) -> Vec<Finding> {
    let facts = seen.measurement.facts.data.as_ref();
    let read = facts.filter(|_| seen.job.direction == Direction::Read);
    read.and_then(check).into_iter().collect()
}

/// What a job writes, by its options: fio writes random bytes unless it is given others.
pub(super) fn of_job(job: &FioJob, result: &JobResult) -> Option<Finding> {
    match result.direction {
        Direction::Read => None,
        Direction::Write => check_written(&job.options),
    }
}

fn check_written(options: &BTreeMap<String, String>) -> Option<Finding> {
    let compressed = options.get(COMPRESSED);
    let compressed = compressed.and_then(|value| value.trim_end_matches('%').parse::<u32>().ok());
    let compressed = compressed.unwrap_or(0);
    // An option without a value is on.
    let zeroes = options.get(ZERO_BUFFERS);
    let what = if zeroes.is_some_and(|value| value != "0") || compressed >= 100 {
        "what was written is zeroes, which need not be stored or sent at all".to_owned()
    } else if compressed > 0 {
        format!("what was written compresses by {compressed} %")
    } else {
        return None;
    };
    Some(Finding::remark(Check::Data, what))
}

/// Looks at what will be read.
pub(crate) fn check(facts: &DataFacts) -> Option<Finding> {
    if let Some(written) = facts.written
        && (written.0 as f64) < facts.size.0 as f64 * WHOLE
    {
        return Some(Finding::invalid(
            Check::Data,
            format!(
                "only {written} of the {} were ever written: the rest is read from no disk",
                facts.size
            ),
        ));
    }
    let bits = facts.bits.filter(|bits| *bits < BITS_MIN)?;
    let what = if bits < BITS_NONE {
        "the data is one byte repeated, which need not be stored or sent at all".to_owned()
    } else {
        format!("the data compresses ({bits:.1} bits of information in a byte)")
    };
    Some(Finding::remark(Check::Data, what))
}

/// The information in a byte by how often each value occurs, in bits: 0 of zeroes, nearly 8 of random
/// bytes. Repetitions of whole stretches are not seen.
#[must_use]
pub(crate) fn bits_per_byte(data: &[u8]) -> Option<f64> {
    if data.is_empty() {
        return None;
    }
    let mut counts = [0u64; 256];
    for byte in data {
        counts[usize::from(*byte)] += 1;
    }
    let total = data.len() as f64;
    let bits = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let part = *count as f64 / total;
            -part * part.log2()
        })
        .sum();
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Level;
    use crate::stats::Rng;

    const SIZE: Bytes = Bytes(256 << 20);

    fn of(written: u64, data: &[u8]) -> DataFacts {
        DataFacts {
            size: SIZE,
            written: Some(Bytes(written)),
            bits: bits_per_byte(data),
        }
    }

    fn random() -> Vec<u8> {
        let mut rng = Rng::new(3);
        (0..65_536)
            .map(|_| u8::try_from(rng.below(256)).unwrap())
            .collect()
    }

    #[test]
    fn study_a_with_dd_would_read_zeroes() {
        let finding = check(&of(SIZE.0, &[0; 4096])).unwrap();
        assert_eq!(finding.level, Level::Remark);
        assert!(finding.text.contains("one byte repeated"));
    }

    #[test]
    fn study_a_with_fallocate_would_read_from_no_disk() {
        let finding = check(&of(0, &[0; 4096])).unwrap();
        assert_eq!(finding.level, Level::Invalid);
        assert_eq!(
            finding.text,
            "only 0 B of the 256 MiB were ever written: the rest is read from no disk"
        );
    }

    #[test]
    fn random_data_all_of_it_written_is_good() {
        assert_eq!(check(&of(SIZE.0, &random())), None);
        let unknown = DataFacts {
            size: SIZE,
            written: None,
            bits: None,
        };
        assert_eq!(check(&unknown), None);
    }

    #[test]
    fn a_job_that_writes_zeroes_or_what_compresses_is_marked() {
        let marked = |name: &str, value: &str| {
            let options = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            check_written(&options).map(|finding| finding.text)
        };
        let zeroes = Some("what was written is zeroes, which need not be stored or sent at all");
        assert_eq!(marked("zero_buffers", "").as_deref(), zeroes);
        assert_eq!(marked("zero_buffers", "1").as_deref(), zeroes);
        assert_eq!(
            marked("buffer_compress_percentage", "30").as_deref(),
            Some("what was written compresses by 30 %")
        );
        assert_eq!(marked("zero_buffers", "0"), None);
        assert_eq!(marked("refill_buffers", "1"), None);
    }

    #[test]
    fn text_compresses_and_random_bytes_do_not() {
        let text = b"the quick brown fox jumps over the lazy dog ".repeat(100);
        assert!(
            check(&of(SIZE.0, &text))
                .unwrap()
                .text
                .contains("compresses")
        );
        assert!(bits_per_byte(&random()).unwrap() > 7.9);
        assert_eq!(bits_per_byte(&[]), None);
    }
}

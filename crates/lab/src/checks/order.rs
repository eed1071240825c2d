//! *order*: a layer is not faster than the one below it; where it seems so, it is measured again, and
//! then explained or marked.
//!
//! Caught in: study B, whose tar ran faster on a loop device than on the disk below it.

use super::{Check, Finding};
use crate::stats::{Comparison, Verdict};

/// Two targets, one above the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layer<'a> {
    /// The upper one.
    pub(crate) name: &'a str,
    /// The one below.
    pub(crate) below: &'a str,
}

/// Whether the upper one is surely faster, which calls for another look.
pub(crate) fn is_reversed(upper_over_lower: &Comparison) -> bool {
    upper_over_lower.verdict == Verdict::Faster
}

/// A layer compared with the one below it, by their rates paired in each block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerComparison<'a> {
    /// The two targets.
    pub(crate) layer: Layer<'a>,
    /// In the blocks of all tests.
    pub(crate) first: &'a Comparison,
    /// In the blocks that were made of these two alone because of it; none where there was no time for them.
    pub(crate) again: Option<Comparison>,
    /// What another check says of the upper one that makes it fast.
    pub(crate) because: Option<&'a str>,
}

/// Reports a layer that is faster than the one below it, and whether it was again.
pub(super) fn check(seen: &LayerComparison<'_>) -> Option<Finding> {
    if !is_reversed(seen.first) {
        return None;
    }
    let again = match &seen.again {
        None => ", and there was no time to measure it again".to_owned(),
        Some(again) if is_reversed(again) => {
            format!(", and was again in {} more blocks", again.ratio.n)
        }
        Some(again) => format!(
            ", but {:.2} times in {} more blocks, so it was the moment and not the layer",
            again.ratio.median, again.ratio.n
        ),
    };
    let because = match (seen.because, seen.again.as_ref().is_none_or(is_reversed)) {
        (Some(because), _) => format!(": {because}"),
        (None, true) => ": a cache on the way, or another state of the disk, took part".to_owned(),
        (None, false) => String::new(),
    };
    Some(Finding::remark(
        Check::Order,
        format!(
            "{} is {:.2} times as fast as {}, on which it stands{again}{because}",
            seen.layer.name, seen.first.ratio.median, seen.layer.below
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::compare;

    const LOOP: Layer<'_> = Layer {
        name: "loop 1",
        below: "disk",
    };

    fn alone(first: &Comparison) -> LayerComparison<'_> {
        LayerComparison {
            layer: LOOP,
            first,
            again: None,
            because: None,
        }
    }

    #[test]
    fn study_b_had_a_loop_device_that_was_faster_than_its_disk() {
        // The paper gives a figure without numbers, these are of its kind.
        let tar = compare(&[1.22, 1.31, 1.18, 1.25, 1.2]).unwrap();
        let finding = check(&alone(&tar)).unwrap();
        assert_eq!(
            finding.text,
            "loop 1 is 1.22 times as fast as disk, on which it stands, and there was no time to measure it \
             again: a cache on the way, or another state of the disk, took part"
        );
    }

    #[test]
    fn what_was_measured_again_is_reported_with_any_result() {
        let first = compare(&[1.22, 1.31, 1.18, 1.25, 1.2]).unwrap();
        let said = |again: [f64; 5], because| {
            let seen = LayerComparison {
                layer: LOOP,
                first: &first,
                again: compare(&again),
                because,
            };
            check(&seen).unwrap().text
        };
        let same = said([1.2, 1.3, 1.19, 1.2, 1.22], None);
        assert!(
            same.contains("and was again in 5 more blocks: a cache on the way"),
            "{same}"
        );
        let other = said([0.9, 0.91, 0.89, 0.9, 0.92], None);
        assert!(
            other.ends_with(
                "but 0.90 times in 5 more blocks, so it was the moment and not the layer"
            ),
            "{other}"
        );
        let explained = said(
            [1.2, 1.3, 1.19, 1.2, 1.22],
            Some("87 % of it was in memory"),
        );
        assert!(
            explained.ends_with("more blocks: 87 % of it was in memory"),
            "{explained}"
        );
    }

    #[test]
    fn a_layer_that_costs_something_or_nothing_is_in_order() {
        for ratios in [
            [0.8, 0.82, 0.79, 0.81, 0.8],
            [1.0, 1.01, 0.99, 1.02, 1.0],
            // One lucky block among slow ones.
            [0.8, 1.9, 0.79, 0.81, 0.8],
        ] {
            assert_eq!(check(&alone(&compare(&ratios).unwrap())), None);
        }
    }
}

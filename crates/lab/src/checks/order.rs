//! *order*: a layer is not faster than what it stands on; where it seems so, it is measured again, and
//! then explained or marked.
//!
//! Caught in: study B, whose tar ran faster on a loop device than on the disk below it.

use super::{Check, Finding};
use crate::stats::{Comparison, Verdict};

/// Two targets, one of which stands on the other.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// The upper one.
    pub name: &'a str,
    /// What it stands on.
    pub below: &'a str,
}

/// Whether the upper one is surely faster, which calls for another look.
#[must_use]
pub fn is_reversed(upper_over_lower: &Comparison) -> bool {
    upper_over_lower.verdict == Verdict::Faster
}

/// Holds a layer against what it stands on, by their rates paired in each block.
#[must_use]
pub fn check(layer: Layer<'_>, upper_over_lower: &Comparison) -> Option<Finding> {
    is_reversed(upper_over_lower).then(|| {
        Finding::remark(
            Check::Order,
            format!(
                "{} is {:.2} times as fast as {}, on which it stands: a cache on the way, or another state \
                 of the disk, took part",
                layer.name, upper_over_lower.ratio.median, layer.below
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::compare;

    const LOOP: Layer<'_> = Layer {
        name: "loop 1",
        below: "disk",
    };

    #[test]
    fn study_b_had_a_loop_device_that_was_faster_than_its_disk() {
        // The paper gives a figure without numbers, these are of its kind.
        let tar = compare(&[1.22, 1.31, 1.18, 1.25, 1.2], 1).unwrap();
        let finding = check(LOOP, &tar).unwrap();
        assert!(
            finding
                .text
                .starts_with("loop 1 is 1.22 times as fast as disk, on which it stands"),
            "{}",
            finding.text
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
            assert_eq!(check(LOOP, &compare(&ratios, 1).unwrap()), None);
        }
    }
}

//! *steady*: a figure is that of a state which lasts, or it says that it is not.
//!
//! Caught in: study C, whose sequential read went between 45 and 96 MiB/s; study D, where one minute
//! "varied a lot"; study A, which "had to space tests far apart to let the card catch up".

use super::{Check, Finding};
use crate::stats::steady::{DRIFT_MAX, RANGE_MAX, ROUNDS, SteadyWindow, steady_from};

/// How the text of an unsteady result begins.
pub(crate) const NOT_STEADY: &str = "NOT STEADY";

/// Looks at the rates of each block, in their order.
pub(super) fn check(rates: &[f64]) -> Option<Finding> {
    let remark = |text: String| Some(Finding::remark(Check::Steady, text));
    if rates.len() < ROUNDS {
        return remark(format!(
            "whether it is steady cannot be determined from {} of the {ROUNDS} blocks that it takes",
            rates.len()
        ));
    }
    let window = SteadyWindow::last(rates)?;
    if !window.is_steady() {
        return remark(format!(
            "{NOT_STEADY}: the last {ROUNDS} blocks range over {:.0} % of their mean ({:.0} % are allowed) and \
             drift by {:+.0} % ({:.0} %)",
            window.range * 100.0,
            RANGE_MAX * 100.0,
            window.drift * 100.0,
            DRIFT_MAX * 100.0
        ));
    }
    match steady_from(rates) {
        None | Some(0) => None,
        Some(first) => remark(format!("it was not steady before block {}", first + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_c_read_at_anything_from_45_to_96_mebibytes() {
        let finding = check(&[83.6, 45.0, 96.0, 60.0, 85.6]).unwrap();
        assert!(
            finding
                .text
                .starts_with("NOT STEADY: the last 5 blocks range over 69 %"),
            "{}",
            finding.text
        );
    }

    #[test]
    fn study_d_made_three_runs_and_five_are_needed() {
        let finding = check(&[1.931, 1.927, 1.936]).unwrap();
        assert!(finding.text.contains("3 of the 5"), "{}", finding.text);
    }

    #[test]
    fn a_card_that_had_to_catch_up_is_seen_in_its_first_blocks() {
        let finding = check(&[16.1, 9.0, 2.3, 2.3, 2.4, 2.3, 2.3]).unwrap();
        assert_eq!(finding.text, "it was not steady before block 3");
    }

    #[test]
    fn what_stays_within_a_fifth_is_steady() {
        assert_eq!(check(&[1.93, 1.92, 1.94, 1.93, 1.90, 1.95]), None);
    }
}

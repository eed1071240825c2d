//! *direct*, of a whole sweep over block sizes: why some sizes are so much faster than their neighbours.
//!
//! Caught in: study C, which found that "block sizes of powers of two have roughly 30% larger
//! throughput". Of its 114 sizes 11 could be direct, and all of these were powers of two: alignment is
//! what they have in common. Sizes of 12 or 96 KiB, aligned and no powers of two, it did not have.

use super::direct::{DioAlign, possible};
use super::{Check, Finding};
use crate::units::Bytes;

/// The block sizes of a sweep on one target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweep<'a> {
    /// Each size, and whether its measurements were direct.
    pub(crate) sizes: &'a [(Bytes, bool)],
    /// What direct I/O needs there, where the kernel gives it.
    pub(crate) align: Option<DioAlign>,
}

pub(super) fn of_sweep(sweep: &Sweep<'_>) -> Option<Finding> {
    let sizes: Vec<Bytes> = sweep.sizes.iter().map(|(size, _)| *size).collect();
    check(&sizes, sweep.align.or_else(|| shown(sweep.sizes)))
}

/// Says which sizes of a sweep went past the page cache and which through it. Nothing to say where all of
/// them went the same way.
fn check(sizes: &[Bytes], align: Option<DioAlign>) -> Option<Finding> {
    let offset = align?.offset;
    let (direct, buffered): (Vec<Bytes>, Vec<Bytes>) = sizes
        .iter()
        .partition(|size| possible(**size, align) == Some(true));
    if direct.is_empty() || buffered.is_empty() {
        return None;
    }
    let powers = direct
        .iter()
        .filter(|size| size.0.is_power_of_two())
        .count();
    let why = if powers == direct.len() {
        "they are powers of two, but it is for their alignment that they differ from the others"
    } else {
        "they differ from the others by their alignment, powers of two or not"
    };
    Some(Finding::remark(
        Check::Direct,
        format!(
            "only {} of the {} sizes are multiples of the {offset} B that direct I/O needs here: {why}",
            direct.len(),
            sizes.len()
        ),
    ))
}

/// The alignment that a sweep itself shows, where the kernel gives none: the largest power of two up to
/// 64 KiB of which all sizes that were direct are multiples and no size that was buffered is one.
fn shown(sizes: &[(Bytes, bool)]) -> Option<DioAlign> {
    let is_border = |offset: &u32| {
        sizes
            .iter()
            .all(|(size, direct)| *direct == size.0.is_multiple_of(u64::from(*offset)))
    };
    let both = sizes.iter().any(|(_, direct)| *direct) && sizes.iter().any(|(_, direct)| !*direct);
    let offset = (9..=16).rev().map(|power| 1u32 << power).find(is_border);
    offset
        .filter(|_| both)
        .map(|offset| DioAlign { memory: 0, offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::round;

    const BTRFS: Option<DioAlign> = Some(DioAlign {
        memory: 512,
        offset: 4096,
    });

    /// int(2^(i/5)) for i up to 113.
    fn study_c() -> Vec<Bytes> {
        (0..114)
            .map(|i| Bytes(round(2f64.powf(f64::from(i) / 5.0).floor())))
            .collect()
    }

    #[test]
    fn study_c_s_powers_of_two_are_those_of_its_sizes_that_could_be_direct() {
        assert_eq!(
            check(&study_c(), BTRFS).unwrap().text,
            "only 11 of the 114 sizes are multiples of the 4096 B that direct I/O needs here: they are powers \
             of two, but it is for their alignment that they differ from the others"
        );
    }

    #[test]
    fn a_sweep_with_12_and_96_kib_says_powers_of_two_or_not() {
        let mut sizes = study_c();
        sizes.extend([Bytes(12 << 10), Bytes(96 << 10)]);
        assert!(
            check(&sizes, BTRFS)
                .unwrap()
                .text
                .ends_with("powers of two or not")
        );
    }

    #[test]
    fn a_sweep_of_aligned_sizes_needs_no_word() {
        assert_eq!(check(&[Bytes(4096), Bytes(12_288)], BTRFS), None);
        assert_eq!(check(&[Bytes(4095), Bytes(12_287)], BTRFS), None);
        assert_eq!(check(&study_c(), None), None);
    }

    #[test]
    fn the_alignment_is_seen_from_what_was_direct() {
        let swept: Vec<(Bytes, bool)> = study_c()
            .into_iter()
            .map(|size| (size, size.0.is_multiple_of(4096)))
            .collect();
        assert_eq!(shown(&swept).unwrap().offset, 4096);
        assert_eq!(shown(&[(Bytes(4096), true)]), None);
        assert_eq!(
            shown(&[(Bytes(4096), false), (Bytes(4608), true)]),
            None,
            "no alignment explains this"
        );
    }
}

//! Tests of parity: the field by its definition, every kernel by the scalar one, and that by the
//! definition.

use proptest::prelude::*;

use super::field::{Factor, double};
use super::{Kernel, TERMS_MAX, inverse, power, product};

/// The product as schools teach it: shift, add, reduce.
fn long_product(mut a: u8, b: u8) -> u8 {
    let mut sum = 0;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            sum ^= a;
        }
        a = double(a);
    }
    sum
}

/// Bytes that differ from term to term and from place to place.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// P and Q by their definition.
fn defined(terms: &[Option<&[u8]>], len: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut p, mut q) = (vec![0; len], vec![0; len]);
    for (exponent, term) in terms.iter().enumerate() {
        let Some(term) = term else { continue };
        for at in 0..len {
            p[at] ^= term[at];
            q[at] ^= long_product(power(exponent), term[at]);
        }
    }
    (p, q)
}

#[test]
fn products_are_those_of_long_multiplication() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(product(a, b), long_product(a, b), "{a} x {b}");
        }
        if a != 0 {
            assert_eq!(product(a, inverse(a)), 1);
        }
    }
    let distinct: std::collections::BTreeSet<u8> = (0..TERMS_MAX).map(power).collect();
    assert_eq!(distinct.len(), TERMS_MAX);
}

#[test]
fn tables_and_matrices_multiply_as_products_do() {
    for value in 0..=255 {
        let factor = Factor::new(value);
        for byte in 0..=255_u8 {
            let looked_up =
                factor.low[usize::from(byte & 15)] ^ factor.high[usize::from(byte >> 4)];
            assert_eq!(looked_up, product(value, byte));
        }
    }
}

#[test]
fn every_kernel_multiplies_by_every_constant() {
    let from: Vec<u8> = (0..=255).cycle().take(600).collect();
    for kernel in Kernel::all() {
        for factor in 0..=255 {
            let mut into = bytes(1, from.len());
            let expected: Vec<u8> = (into.iter().zip(&from))
                .map(|(sum, byte)| sum ^ long_product(factor, *byte))
                .collect();
            kernel.multiply_add(factor, &from, &mut into);
            assert_eq!(into, expected, "{} by {factor}", kernel.name());
        }
    }
}

#[test]
fn every_kernel_works_at_every_length_and_alignment() {
    const LEN_MAX: usize = 600;
    let sources: Vec<Vec<u8>> = (0..5).map(|seed| bytes(seed, LEN_MAX + 64)).collect();
    let lens = (0..140).chain((140..LEN_MAX).step_by(37));
    for len in lens {
        // Every source at another place within a register.
        let at = |index: usize| (len * 7 + index * 13) % 64;
        let cut = |index: usize| &sources[index][at(index)..at(index) + len];
        let terms: Vec<_> = (0..5).map(|index| Some(cut(index))).collect();
        let (p, q) = defined(&terms, len);
        let plain: Vec<_> = (0..5).map(cut).collect();
        for kernel in Kernel::all() {
            let mut room = vec![0xa5; len + 130];
            let before = at(9);
            kernel.xor(&plain, &mut room[before..before + len]);
            assert_eq!(room[before..before + len], p, "{} {len}", kernel.name());
            let beside = room[..before].iter().chain(&room[before + len..]);
            assert!(beside.copied().all(|byte| byte == 0xa5), "{len} beside");
            let (mut found_p, mut found_q) = (vec![0; len], vec![0; len]);
            kernel.syndrome(&terms, &mut found_p, &mut found_q);
            assert_eq!((&found_p, &found_q), (&p, &q), "{} {len}", kernel.name());
        }
    }
}

#[test]
fn nothing_is_the_sum_of_no_terms() {
    for kernel in Kernel::all() {
        let mut into = vec![7; 300];
        kernel.xor(&[], &mut into);
        assert_eq!(into, [0; 300]);
    }
}

#[test]
fn the_best_kernel_is_the_last_of_all() {
    assert_eq!(Kernel::all().first(), Some(&Kernel::SCALAR));
    assert_eq!(Kernel::all().last(), Some(&Kernel::best()));
}

/// Loses each single term and each pair of `count`, and has every kernel give it back.
fn lose_each(count: usize, zeroes: &[usize], len: usize) {
    let sources: Vec<Vec<u8>> = (0..count as u64).map(|seed| bytes(seed, len)).collect();
    let whole: Vec<Option<&[u8]>> = (0..count)
        .map(|at| (!zeroes.contains(&at)).then(|| sources[at].as_slice()))
        .collect();
    let (p, q) = defined(&whole, len);
    let held: Vec<usize> = (0..count).filter(|at| !zeroes.contains(at)).collect();
    for kernel in Kernel::all() {
        for (index, &x) in held.iter().enumerate() {
            let mut left = whole.clone();
            left[x] = None;
            let mut found = vec![0; len];
            kernel.from_q(&left, &q, x, &mut found);
            assert_eq!(found, sources[x], "{} {x} of {count}", kernel.name());
            let mut others: Vec<&[u8]> = left.iter().flatten().copied().collect();
            others.push(&p);
            kernel.xor(&others, &mut found);
            assert_eq!(found, sources[x], "{} {x} of {count}", kernel.name());
            for &y in &held[index + 1..] {
                let mut left = left.clone();
                left[y] = None;
                let (mut first, mut second) = (vec![0; len], vec![0; len]);
                let into = [first.as_mut_slice(), second.as_mut_slice()];
                kernel.from_both(&left, [&p, &q], [x, y], into);
                assert_eq!(first, sources[x], "{} {x}, {y} of {count}", kernel.name());
                assert_eq!(second, sources[y], "{} {x}, {y} of {count}", kernel.name());
            }
        }
    }
}

#[test]
fn every_term_and_every_pair_of_up_to_20_can_be_lost() {
    for count in 1..=20 {
        lose_each(count, &[], 67);
    }
}

#[test]
fn terms_that_are_zero_take_their_exponents() {
    lose_each(9, &[0, 8], 67);
    lose_each(9, &[3, 4], 67);
}

#[test]
fn the_first_and_the_last_of_255_terms_can_be_lost() {
    let sources: Vec<Vec<u8>> = (0..255).map(|seed| bytes(seed, 70)).collect();
    let mut terms: Vec<Option<&[u8]>> = sources.iter().map(|term| Some(&**term)).collect();
    let (p, q) = defined(&terms, 70);
    (terms[0], terms[254]) = (None, None);
    for kernel in Kernel::all() {
        let (mut first, mut second) = (vec![0; 70], vec![0; 70]);
        let into = [first.as_mut_slice(), second.as_mut_slice()];
        kernel.from_both(&terms, [&p, &q], [0, 254], into);
        assert_eq!((&first, &second), (&sources[0], &sources[254]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_kernel_gives_what_the_scalar_one_gives(
        seed: u64, count in 3..24_usize, len in 0..3000_usize, skew in 0..64_usize,
        x in 0..24_usize, y in 0..24_usize,
    ) {
        let (x, y) = ((x % count).min(y % count), (x % count).max(y % count));
        prop_assume!(x < y);
        let sources: Vec<Vec<u8>> = (0..count as u64)
            .map(|term| bytes(seed ^ term << 32, len + 64))
            .collect();
        let cut = |at: usize| Some(&sources[at][(skew * at) % 64..][..len]);
        let mut terms: Vec<_> = (0..count).map(cut).collect();
        let run = |kernel: Kernel, terms: &[Option<&[u8]>], p: &[u8], q: &[u8]| {
            let (mut first, mut second, mut single) = (vec![0; len], vec![0; len], vec![0; len]);
            kernel.from_both(terms, [p, q], [x, y], [&mut first, &mut second]);
            kernel.from_q(terms, q, x, &mut single);
            (first, second, single)
        };
        let (mut p, mut q) = (vec![0; len], vec![0; len]);
        Kernel::SCALAR.syndrome(&terms, &mut p, &mut q);
        let lost = [terms[x], terms[y]];
        (terms[x], terms[y]) = (None, None);
        let expected = run(Kernel::SCALAR, &terms, &p, &q);
        prop_assert_eq!([Some(&*expected.0), Some(&*expected.1)], lost);
        for kernel in Kernel::all() {
            prop_assert_eq!(&run(*kernel, &terms, &p, &q), &expected, "{}", kernel.name());
        }
    }
}

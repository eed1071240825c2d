//! Chance that a seed decides. Pure.

/// Spreads each input over all 64 bits (the finalizer of the SplitMix64 generator: Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014).
const fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

/// The `n`th draw of `seed`: a number below `bound`, each as likely as another; 0 if `bound` is 0.
pub(crate) fn below(seed: u64, n: u64, bound: u64) -> u64 {
    let mixed = u128::from(mix(seed ^ mix(n)));
    let drawn = (mixed * u128::from(bound)) >> 64;
    u64::try_from(drawn).expect("the upper half of a product of two numbers of 64 bits")
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn draws_are_below_their_bound_spread_evenly_and_the_seeds_own() {
        let draws = |seed| -> Vec<u64> { (0..10_000).map(|n| below(seed, n, 10)).collect() };
        for digit in 0..10 {
            let count = draws(1).iter().filter(|&&drawn| drawn == digit).count();
            assert!(
                (900..1100).contains(&count),
                "{digit} was drawn {count} times"
            );
        }
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert_eq!(below(1, 1, 0), 0);
        assert_eq!(below(1, 1, 1), 0);
    }
}

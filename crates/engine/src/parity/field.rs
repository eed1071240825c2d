//! The field of 256 elements in which RAID 6 computes: polynomial 0x11d, generator 2. Pure.
//!
//! A byte is a polynomial over bits; adding is exclusive or. Each non-zero element is a power of 2, so
//! that products are sums of logarithms.

/// The polynomial without its highest term.
pub(super) const REDUCE: u8 = 0x1d;
/// Non-zero elements: powers of 2 repeat after so many.
const ORDER: usize = 255;

const EXP: [u8; ORDER] = powers();
const LOG: [u8; 256] = logarithms();

const fn powers() -> [u8; ORDER] {
    let mut powers = [0; ORDER];
    let (mut value, mut at) = (1, 0);
    while at < ORDER {
        powers[at] = value;
        value = double(value);
        at += 1;
    }
    powers
}

/// That of 0, which has none, is 0.
const fn logarithms() -> [u8; 256] {
    let mut logarithms = [0; 256];
    let (mut log, mut at) = (0_u8, 0);
    while at < ORDER {
        logarithms[EXP[at] as usize] = log;
        log = log.wrapping_add(1);
        at += 1;
    }
    logarithms
}

/// Twice `value`.
pub(super) const fn double(value: u8) -> u8 {
    let carry = if value & 0x80 == 0 { 0 } else { REDUCE };
    value << 1 ^ carry
}

/// 2 to the power of `exponent`.
#[must_use]
pub const fn power(exponent: usize) -> u8 {
    EXP[exponent % ORDER]
}

/// The product.
#[must_use]
pub const fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[(LOG[a as usize] as usize + LOG[b as usize] as usize) % ORDER]
}

/// What `value` is multiplied with to get 1.
///
/// # Panics
/// If it is 0, which has none.
#[must_use]
pub const fn inverse(value: u8) -> u8 {
    assert!(value != 0, "0 has no inverse");
    EXP[(ORDER - LOG[value as usize] as usize) % ORDER]
}

/// A constant as each kind of instruction multiplies with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factor {
    /// Products with the numbers 0 to 15…
    pub(super) low: [u8; 16],
    /// …and with 16 times these.
    pub(super) high: [u8; 16],
    /// The product as a matrix of bits: the byte for bit `i` of the result is number `7 - i`.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only GFNI multiplies with it")
    )]
    pub(super) matrix: u64,
}

impl Factor {
    pub(super) const fn new(value: u8) -> Self {
        let (mut low, mut high) = ([0; 16], [0; 16]);
        let (mut nibble, mut at) = (0_u8, 0);
        while at < 16 {
            low[at] = product(value, nibble);
            high[at] = product(value, nibble << 4);
            nibble += 1;
            at += 1;
        }
        let (mut matrix, mut bit) = (0_u64, 0);
        while bit < 8 {
            let column = product(value, 1 << bit) as u64;
            let mut row = 0;
            while row < 8 {
                matrix |= (column >> row & 1) << (8 * (7 - row) + bit);
                row += 1;
            }
            bit += 1;
        }
        Self { low, high, matrix }
    }
}

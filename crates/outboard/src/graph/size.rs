//! Sizes as people write them: `64K`, `1G`, `1.5G`, `20GiB`, `500MB`.
//!
//! `K M G T P E`, alone or as `KiB MiB …`, are powers of 1024; `KB MB …` are powers of 1000; a plain
//! number or `B` is bytes. Upper and lower case are the same. A fraction must give whole bytes.

use std::fmt;
use std::str::FromStr;

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteSize(pub(crate) u64);

/// Why a text is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SizeError {
    /// No digits at its head.
    #[error("a size begins with a number, like 64K or 1.5G")]
    NoNumber,
    /// Something else than a unit behind the number.
    #[error(
        "`{0}` is not a unit: use K, M, G, T, P or E (powers of 1024), or KB, MB, … (powers of 1000)"
    )]
    Unit(String),
    /// A fraction of a byte.
    #[error("not a whole number of bytes")]
    Fraction,
    /// More than 2^63 - 1 bytes, the end of Linux's file offsets.
    #[error("too large: at most 2^63 - 1 bytes")]
    TooLarge,
}

const UNITS: [(char, u32); 6] = [('k', 1), ('m', 2), ('g', 3), ('t', 4), ('p', 5), ('e', 6)];

/// Most digits behind the point; a byte of an exbibyte needs fewer.
const FRACTION_DIGITS_MAX: usize = 18;

/// Unit of a disk's size, bytes.
pub(crate) const SECTOR: u64 = 512;

impl ByteSize {
    /// Whether a disk can have this size.
    pub(crate) const fn is_of_a_disk(self) -> bool {
        self.0 > 0 && self.0.is_multiple_of(SECTOR)
    }
}

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let digits_end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let has_point = number.contains('.');
        if whole.is_empty() || (has_point && (fraction.is_empty() || fraction.contains('.'))) {
            return Err(SizeError::NoNumber);
        }
        let factor = factor(unit)?;
        let whole: u128 = whole.parse().map_err(|_| SizeError::TooLarge)?;
        let bytes = whole
            .checked_mul(factor)
            .ok_or(SizeError::TooLarge)?
            .checked_add(part_of(factor, fraction)?)
            .ok_or(SizeError::TooLarge)?;
        match u64::try_from(bytes) {
            Ok(bytes) if i64::try_from(bytes).is_ok() => Ok(Self(bytes)),
            _ => Err(SizeError::TooLarge),
        }
    }
}

/// `0.fraction * factor`, where that is whole.
fn part_of(factor: u128, fraction: &str) -> Result<u128, SizeError> {
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Ok(0);
    }
    if fraction.len() > FRACTION_DIGITS_MAX {
        return Err(SizeError::Fraction);
    }
    let scale = fraction.bytes().fold(1_u128, |scale, _| scale * 10);
    let digits: u128 = fraction.parse().map_err(|_| SizeError::NoNumber)?;
    // At most 10^18 * 2^60: below 2^128.
    let product = digits * factor;
    if !product.is_multiple_of(scale) {
        return Err(SizeError::Fraction);
    }
    Ok(product / scale)
}

fn factor(unit: &str) -> Result<u128, SizeError> {
    let lower = unit.to_ascii_lowercase();
    if lower.is_empty() || lower == "b" {
        return Ok(1);
    }
    let unknown = || SizeError::Unit(unit.to_owned());
    let letter = lower.chars().next().ok_or_else(unknown)?;
    let power = UNITS
        .iter()
        .find(|(l, _)| *l == letter)
        .ok_or_else(unknown)?
        .1;
    match &lower[letter.len_utf8()..] {
        "" | "i" | "ib" => Ok(1024_u128.pow(power)),
        "b" => Ok(1000_u128.pow(power)),
        _ => Err(unknown()),
    }
}

impl fmt::Display for ByteSize {
    /// In the largest binary unit that holds it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().rev().find(|(_, power)| {
            let unit = 1024_u64.pow(*power);
            self.0 >= unit && self.0.is_multiple_of(unit)
        });
        match exact {
            Some((letter, power)) => {
                let count = self.0 / 1024_u64.pow(*power);
                write!(f, "{count}{}", letter.to_ascii_uppercase())
            }
            None => write!(f, "{}", self.0),
        }
    }
}

//! How large a volume is to be, as LVM's users write it: `10G`, `+5G`, `150` extents, `100%FREE`. Pure.

use std::str::FromStr;

use indicatif::HumanBytes;

use crate::failure::Failure;
use crate::graph::ByteSize;

/// Whether an amount is a whole, or comes to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AmountSign {
    /// The volume is to be so large.
    Total,
    /// `+`
    More,
    /// `-`
    Less,
}

/// A number of bytes or of extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AmountUnit {
    Bytes(u64),
    Extents(u64),
    /// Percent of the free extents.
    PercentFree(u64),
}

/// `--size`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeAmount(AmountSign, u64);

/// `--extents`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExtentsAmount(AmountSign, AmountUnit);

/// The two options, of which one is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(super) struct AmountArgs {
    /// Size, rounded up to whole extents: 10G; +5G and -5G are relative
    #[arg(
        long,
        short = 'L',
        value_name = "[+|-]SIZE",
        allow_hyphen_values = true
    )]
    size: Option<SizeAmount>,

    /// Size in extents: 250, +50, or a share of those that are free: 100%FREE
    #[arg(
        long,
        short = 'l',
        value_name = "[+|-]NUMBER[%FREE]",
        allow_hyphen_values = true,
        conflicts_with = "size"
    )]
    extents: Option<ExtentsAmount>,
}

/// What amounts refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct AmountBase {
    /// Bytes of an extent.
    pub(super) extent: u64,
    /// Free extents.
    pub(super) free: u64,
}

/// A number of extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extents {
    pub(super) sign: AmountSign,
    pub(super) count: u64,
}

fn signed(text: &str) -> (AmountSign, &str) {
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(more), _) => (AmountSign::More, more),
        (_, Some(less)) => (AmountSign::Less, less),
        _ => (AmountSign::Total, text),
    }
}

impl FromStr for SizeAmount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sign, size) = signed(text);
        let ByteSize(bytes) = size.parse().map_err(|error| format!("{error}"))?;
        Ok(Self(sign, bytes))
    }
}

impl FromStr for ExtentsAmount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sign, number) = signed(text);
        let wrong = || "a number of extents, or a share of the free ones like 100%FREE".to_owned();
        let (number, is_share) = match number.split_once('%') {
            Some((number, unit)) if unit.eq_ignore_ascii_case("free") => (number, true),
            Some(_) => return Err(wrong()),
            None => (number, false),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        if !is_share {
            return Ok(Self(sign, AmountUnit::Extents(number)));
        }
        if number == 0 || number > 100 {
            return Err("a share is 1%FREE to 100%FREE".to_owned());
        }
        Ok(Self(sign, AmountUnit::PercentFree(number)))
    }
}

impl AmountArgs {
    /// Whether a size is given.
    pub(super) const fn is_given(&self) -> bool {
        self.size.is_some() || self.extents.is_some()
    }

    /// Whether it is a share of what is free: such a number is rounded down.
    pub(super) fn is_share(&self) -> bool {
        matches!(
            self.extents,
            Some(ExtentsAmount(_, AmountUnit::PercentFree(_)))
        )
    }

    /// So many extents.
    pub(super) fn extents(&self, base: AmountBase) -> Result<Extents, Failure> {
        let (sign, unit) = match (self.size, self.extents) {
            (Some(SizeAmount(sign, bytes)), _) => (sign, AmountUnit::Bytes(bytes)),
            (None, Some(ExtentsAmount(sign, unit))) => (sign, unit),
            (None, None) => {
                return Err(Failure::usage("how large is not said").next("add --size 10G"));
            }
        };
        let count = match unit {
            AmountUnit::Bytes(bytes) => bytes.div_ceil(base.extent),
            AmountUnit::Extents(count) => count,
            AmountUnit::PercentFree(percent) => {
                let share = u128::from(base.free) * u128::from(percent) / 100;
                u64::try_from(share).unwrap_or(u64::MAX)
            }
        };
        Ok(Extents { sign, count })
    }
}

/// Extents in words: `600.00 MiB (150 extents)`.
pub(super) fn in_words(extents: u64, extent: u64) -> String {
    let bytes = HumanBytes(extents.saturating_mul(extent));
    match extents {
        1 => format!("{bytes} (1 extent)"),
        _ => format!("{bytes} ({extents} extents)"),
    }
}

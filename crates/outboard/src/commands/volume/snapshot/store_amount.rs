//! How large the store of a snapshot is to be: `2G`, `500` extents, `10%ORIGIN`, `100%FREE`. Pure.

use std::str::FromStr;

use crate::failure::Failure;
use crate::graph::ByteSize;

/// What an amount is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreUnit {
    Bytes(u64),
    Extents(u64),
    /// Percent of the free extents.
    PercentFree(u64),
    /// Percent of a store that is never full.
    PercentOrigin(u64),
}

/// `--size`; true: it comes to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoreSize(bool, u64);

/// `--extents`; true: it comes to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoreExtents(bool, StoreUnit);

/// The two options, of which one is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct StoreAmountArgs {
    /// Size of the store, rounded up to whole extents: 2G; +2G comes to what it has
    #[arg(long, short = 'L', value_name = "[+]SIZE")]
    size: Option<StoreSize>,

    /// The same in extents: 500, a share of the origin like 10%ORIGIN (100% is never full), or of the free ones: 100%FREE
    #[arg(long, short = 'l', value_name = "[+]NUMBER[%ORIGIN|%FREE]")]
    extents: Option<StoreExtents>,
}

/// What amounts refer to, extents.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreBase {
    /// Bytes of an extent.
    pub(super) extent: u64,
    /// Free ones.
    pub(super) free: u64,
    /// Those of a store that is never full.
    pub(super) max: u64,
    /// Those that the store has.
    pub(super) has: u64,
}

impl FromStr for StoreSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (more, size) = relative(text);
        let ByteSize(bytes) = size.parse().map_err(|error| format!("{error}"))?;
        Ok(Self(more, bytes))
    }
}

impl FromStr for StoreExtents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "a number of extents, a share of the origin like 10%ORIGIN, or of the free ones like 100%FREE"
                .to_owned()
        };
        let (more, number) = relative(text);
        let (number, unit) = number.split_once('%').unwrap_or((number, ""));
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit = match unit.to_ascii_lowercase().as_str() {
            "" if text.contains('%') => return Err(wrong()),
            "" => return Ok(Self(more, StoreUnit::Extents(number))),
            "free" => StoreUnit::PercentFree(number),
            "origin" => StoreUnit::PercentOrigin(number),
            _ => return Err(wrong()),
        };
        match (1..=100).contains(&number) {
            true => Ok(Self(more, unit)),
            false => Err("a share is 1 to 100 %".to_owned()),
        }
    }
}

fn relative(text: &str) -> (bool, &str) {
    match text.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

impl StoreAmountArgs {
    /// Extents that the store is to have.
    pub(super) fn extents(&self, base: StoreBase) -> Result<u64, Failure> {
        let (more, unit) = match (self.size, self.extents) {
            (Some(StoreSize(more, bytes)), _) => (more, StoreUnit::Bytes(bytes)),
            (None, Some(StoreExtents(more, unit))) => (more, unit),
            (None, None) => {
                let failure = Failure::usage("how large the store is to be is not said");
                return Err(failure.next("add --size 2G or --extents 10%ORIGIN"));
            }
        };
        let share = |of: u64, percent: u64| u128::from(of) * u128::from(percent);
        let whole = |share: u128| u64::try_from(share).unwrap_or(u64::MAX);
        let count = match unit {
            StoreUnit::Bytes(bytes) => bytes.div_ceil(base.extent),
            StoreUnit::Extents(count) => count,
            StoreUnit::PercentFree(percent) => whole(share(base.free, percent) / 100),
            StoreUnit::PercentOrigin(percent) => whole(share(base.max, percent).div_ceil(100)),
        };
        // What is free comes to what the store has in any case.
        let is_more = more || matches!(unit, StoreUnit::PercentFree(_));
        Ok(if is_more {
            base.has.saturating_add(count)
        } else {
            count
        })
    }
}

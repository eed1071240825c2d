//! [`StorePrices`]: what a store charges, and what the requests and the objects of a volume cost by that. Pure.
//!
//! Requests are of the classes that S3 bills: PUT, COPY, POST and LIST at one price, GET and all others at another one, DELETE free. The
//! prices are the user's: there are none by default.
//!
//! # Invariants
//!
//! * Amounts are whole billionths, computed without overflow: they are exact, and end at [`u64::MAX`] billionths.
//!
//! # What this does not do
//!
//! It estimates: free quotas, minimum periods of storage, taxes, and requests that the client of a store repeats by itself after an error
//! are not in it.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected};
use serde::{Deserialize, Serialize, Serializer};

use crate::figures::{StoreOperation, VolumeFigures};

/// Digits behind the point of a [`Decimal`] are those of a billionth.
const BILLION: f64 = 1e9;
/// Longest name of a currency, characters.
const CURRENCY_MAX: usize = 16;
/// A month, as providers count hours: 730.
const MONTH: Duration = Duration::from_secs(730 * 60 * 60);
/// Requests that a price is for.
const PRICED_REQUESTS: u64 = 1000;
/// Bytes that a price is for.
const GIB: u64 = 1 << 30;

/// A number with nine decimals, not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Decimal {
    /// In billionths.
    pub billionths: u64,
}

impl Decimal {
    /// `count` of one each per `unit`, in billionths.
    fn of(count: u64, each: Self, unit: u64) -> Self {
        let product = u128::from(count) * u128::from(each.billionths);
        let billionths = product / u128::from(unit.max(1));
        Self {
            billionths: u64::try_from(billionths).unwrap_or(u64::MAX),
        }
    }

    /// `count` in this time, per second; zero if no time passed.
    #[must_use]
    pub fn per_second(count: u64, open_ms: u64) -> Self {
        let thousand = Self {
            billionths: 1_000_000_000_000,
        };
        match open_ms {
            0 => Self::default(),
            _ => Self::of(count, thousand, open_ms),
        }
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            billionths: self.billionths.saturating_add(other.billionths),
        }
    }

    /// The nearest floating point number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "15 digits are enough to show")]
    pub fn as_f64(self) -> f64 {
        self.billionths as f64 / BILLION
    }
}

/// Two decimals from 1 on; of less than 1 six, without zeroes at the end.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.as_f64();
        if value >= 1.0 {
            return write!(f, "{value:.2}");
        }
        let text = format!("{value:.6}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Decimal {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked before, and its end saturates"
    )]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        let billionths = (value * BILLION).round();
        match (0.0..=u64::MAX as f64).contains(&billionths) {
            true => Ok(Self {
                billionths: billionths as u64,
            }),
            false => Err(D::Error::invalid_value(
                Unexpected::Float(value),
                &"an amount that is not negative",
            )),
        }
    }
}

/// What a store charges.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorePrices {
    /// What the prices are in, for people.
    #[serde(deserialize_with = "currency")]
    pub currency: String,
    /// 1,000 requests of the class PUT, COPY, POST, LIST.
    pub put_per_1000: Decimal,
    /// 1,000 requests of the class GET and all others.
    pub get_per_1000: Decimal,
    /// A GiB of data that comes from the store.
    #[serde(default)]
    pub egress_per_gib: Decimal,
    /// A GiB that is stored for a month.
    #[serde(default)]
    pub storage_per_gib_month: Decimal,
}

fn currency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let length = text.chars().count();
    match (1..=CURRENCY_MAX).contains(&length) && !text.contains(char::is_control) {
        true => Ok(text),
        false => Err(D::Error::invalid_value(
            Unexpected::Str(&text),
            &"a currency of 1 to 16 characters, like \"USD\"",
        )),
    }
}

/// What a volume cost since it was opened, by [`StorePrices`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeCost {
    /// What the amounts are in.
    pub currency: String,
    /// Requests of the class PUT, COPY, POST, LIST.
    pub put_class_requests: u64,
    /// Requests of the class GET.
    pub get_class_requests: u64,
    /// What the first cost.
    pub put_class: Decimal,
    /// What the second cost.
    pub get_class: Decimal,
    /// What the data from the store cost.
    pub egress: Decimal,
    /// All of it.
    pub total: Decimal,
    /// What a month costs at the mean rate since the volume was opened; without storage.
    pub per_month: Decimal,
}

impl VolumeCost {
    /// Adds that of another handle of the same volume.
    pub(crate) fn add(&mut self, other: &Self) {
        self.put_class_requests += other.put_class_requests;
        self.get_class_requests += other.get_class_requests;
        self.put_class = self.put_class.plus(other.put_class);
        self.get_class = self.get_class.plus(other.get_class);
        self.egress = self.egress.plus(other.egress);
        self.total = self.total.plus(other.total);
        self.per_month = self.per_month.plus(other.per_month);
    }
}

impl StorePrices {
    /// What the requests and the data of a volume cost.
    #[must_use]
    pub fn cost(&self, volume: &VolumeFigures) -> VolumeCost {
        let requests = |operation| volume.requests(operation);
        let puts = requests(StoreOperation::Put) + requests(StoreOperation::List);
        let gets = requests(StoreOperation::Get);
        let put_class = Decimal::of(puts, self.put_per_1000, PRICED_REQUESTS);
        let get_class = Decimal::of(gets, self.get_per_1000, PRICED_REQUESTS);
        let egress = Decimal::of(volume.received, self.egress_per_gib, GIB);
        let total = put_class.plus(get_class).plus(egress);
        let month_ms = u64::try_from(MONTH.as_millis()).unwrap_or(u64::MAX);
        let per_month = match volume.open_ms {
            0 => Decimal::default(),
            open_ms => Decimal::of(month_ms, total, open_ms),
        };
        VolumeCost {
            currency: self.currency.clone(),
            put_class_requests: puts,
            get_class_requests: gets,
            put_class,
            get_class,
            egress,
            total,
            per_month,
        }
    }

    /// What it costs to store `bytes` for a month.
    #[must_use]
    pub fn storage_per_month(&self, bytes: u64) -> Decimal {
        Decimal::of(bytes, self.storage_per_gib_month, GIB)
    }
}

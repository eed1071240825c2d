//! Sizes in plans: `"4K"`, `"512M"`, `"1G"`, or a plain number of bytes. K is 1024.

use serde::{Deserialize, Deserializer, Serializer, de};

use crate::units::Bytes;

/// The units, largest first.
const UNITS: [(char, u64); 4] = [
    ('T', 1 << 40),
    ('G', 1 << 30),
    ('M', 1 << 20),
    ('K', 1 << 10),
];

/// Reads a size; none when it is no number, has an unknown unit or is too large.
pub(crate) fn parse(text: &str) -> Option<Bytes> {
    let text = text.trim();
    let (digits, unit) = match text.chars().last()?.to_ascii_uppercase() {
        last if last.is_ascii_digit() => (text, 1),
        last => {
            let (_, unit) = UNITS.iter().find(|(name, _)| *name == last)?;
            (&text[..text.len() - 1], *unit)
        }
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).map(Bytes)
}

/// The shortest form that [`parse`] reads back.
pub(crate) fn format(size: Bytes) -> String {
    match UNITS
        .iter()
        .find(|(_, unit)| size.0 >= *unit && size.0.is_multiple_of(*unit))
    {
        Some((name, unit)) => format!("{}{name}", size.0 / unit),
        None => size.0.to_string(),
    }
}

pub(crate) fn serialize<S: Serializer>(size: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*size))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| {
        de::Error::custom(format!(
            "{text:?} is no size; write it as \"4K\", \"512M\" or \"1G\""
        ))
    })
}

/// The same for a size that may be absent.
pub(crate) mod option {
    use serde::{Deserializer, Serializer};

    use crate::units::Bytes;

    pub(crate) fn serialize<S: Serializer>(
        size: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match size {
            Some(size) => super::serialize(size, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

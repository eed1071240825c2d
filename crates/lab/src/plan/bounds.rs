//! Bounds of the values of a plan, each with the one sentence that says what is wrong. Pure.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::units::{Bytes, MIB};

/// `value` is one of `range`.
pub(crate) fn within<T: PartialOrd + Display>(
    name: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), String> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(format!(
            "{name} is {value}, it must be {} to {}",
            range.start(),
            range.end()
        )),
    }
}

/// `value` is `most` or less.
pub(crate) fn at_most(name: &str, value: u32, most: u32) -> Result<(), String> {
    match value <= most {
        true => Ok(()),
        false => Err(format!("{name} is {value}, at most {most}")),
    }
}

/// `value` is `least` or more.
pub(crate) fn at_least(name: &str, value: Bytes, least: Bytes) -> Result<(), String> {
    match value >= least {
        true => Ok(()),
        false => Err(format!("{name} is {value}, at least {least} is needed")),
    }
}

/// `bytes` is some whole MiB.
pub(crate) fn whole_mib(bytes: Bytes) -> Result<(), String> {
    match bytes.0 >= MIB && bytes.0.is_multiple_of(MIB) {
        true => Ok(()),
        false => Err(format!("bytes is {bytes}, it must be whole MiB")),
    }
}

/// `block` can be requested of `bytes`.
pub(crate) fn block_size(block: Bytes, bytes: Bytes) -> Result<(), String> {
    match block.0 > 0 && block.0.is_multiple_of(512) && block <= bytes {
        true => Ok(()),
        false => Err(format!(
            "block_size is {block}, it must be a multiple of 512 B that fits in bytes"
        )),
    }
}

//! The arguments of `delay`, `throttle` and `fault`: disks for tests and for the lab. Pure.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use block::{Errno, Operation, Range};
use nodes::{DelayTimes, FaultEffect, FaultPlan, FaultRule, Rates};

use super::arguments::{ArgumentResult, Arguments};
use super::error::ExpressionProblem;
use super::size::ByteSize;
use super::syntax::Word;

/// Rates of bytes, bursts and other amounts.
const AMOUNTS: RangeInclusive<u64> = 1..=(1 << 62);
/// Most requests that are counted before a fault.
const REQUESTS_MAX: usize = i32::MAX as usize;
/// A write cache of a drive, bytes.
const CACHES: RangeInclusive<u64> = 512..=(1 << 30);
/// All of a rate.
const MILLION: u32 = 1_000_000;
/// Digits behind the point of a rate in percent, at most.
const PERCENT_DIGITS: usize = 4;

/// `delay(DISK, …)` behind its disk.
pub(super) fn delay(arguments: &mut Arguments<'_>) -> ArgumentResult<DelayTimes> {
    let mut times = DelayTimes::default();
    let delays = [
        ("read", &mut times.read),
        ("write", &mut times.write),
        ("flush", &mut times.flush),
        ("trim", &mut times.trim),
        ("write-zeroes", &mut times.write_zeroes),
        ("extents", &mut times.extents),
    ];
    let mut given = false;
    for (key, delay) in delays {
        if let Some(time) = arguments.time(key)? {
            (*delay, given) = (time, true);
        }
    }
    if !given {
        return Err(arguments.missing("a time, like read=2ms,"));
    }
    times.jitter = arguments.time("jitter")?.unwrap_or_default();
    times.seed = arguments.seed()?;
    Ok(times)
}

/// `throttle(DISK, …)` behind its disk.
pub(super) fn throttle(arguments: &mut Arguments<'_>) -> ArgumentResult<Rates> {
    let mut rates = Rates::default();
    let bounds = [
        ("bytes", &mut rates.bytes_per_s),
        ("ops", &mut rates.ops_per_s),
        ("read-bytes", &mut rates.read_bytes_per_s),
        ("read-ops", &mut rates.read_ops_per_s),
        ("write-bytes", &mut rates.write_bytes_per_s),
        ("write-ops", &mut rates.write_ops_per_s),
    ];
    let mut given = false;
    for (key, bound) in bounds {
        *bound = arguments.rate(key, AMOUNTS)?.and_then(NonZeroU64::new);
        given |= bound.is_some();
    }
    if !given {
        return Err(arguments.missing("a rate, like bytes=10M/s,"));
    }
    rates.burst_bytes = arguments.size("burst", AMOUNTS)?;
    rates.burst_ops = arguments.size("burst-ops", AMOUNTS)?;
    Ok(rates)
}

/// `fault(DISK, …)` behind its disk.
pub(super) fn fault(arguments: &mut Arguments<'_>) -> ArgumentResult<FaultPlan> {
    let rules: Vec<FaultRule> = rule(arguments)?.into_iter().collect();
    let pulled_while = arguments.keyed_word("pulled-while", "the path of a file")?;
    let plan = FaultPlan {
        rules,
        cache: arguments.size("cache", CACHES)?,
        pulled_while: pulled_while.map(|path| PathBuf::from(&path.text)),
        seed: arguments.seed()?,
    };
    if plan.rules.is_empty() && plan.cache.is_none() && plan.pulled_while.is_none() {
        return Err(arguments.missing("what goes wrong, like on=write,"));
    }
    Ok(plan)
}

/// What `error` may be.
const ERRORS: [&str; 3] = ["io", "no-space", "not-permitted"];
/// What `does` may be.
const EFFECTS: [&str; 4] = ["fail", "tear", "tear-silently", "lose"];

fn rule(arguments: &mut Arguments<'_>) -> ArgumentResult<Option<FaultRule>> {
    let does = arguments.choice("does", &EFFECTS)?;
    let error = arguments.choice("error", &ERRORS)?;
    let on = arguments.keyed_word("on", "read, write, flush, trim or write-zeroes")?;
    let at = arguments.keyed_word("at", "OFFSET+LENGTH, like 1M+64K")?;
    let rate = arguments.keyed_word("rate", "a part like 10% or 0.1")?;
    let after = arguments.count("after", REQUESTS_MAX)?;
    let times = arguments.count("times", REQUESTS_MAX)?;
    let lasts = arguments.time("lasts")?;
    let counts = after.is_some() || times.is_some() || lasts.is_some();
    let words = on.is_some() || at.is_some() || rate.is_some();
    if does.is_none() && error.is_none() && !words && !counts {
        return Ok(None);
    }
    let errno = match error {
        Some(1) => Errno::NoSpace,
        Some(2) => Errno::NotPermitted,
        _ => Errno::Io,
    };
    let effect = match does {
        Some(1) => FaultEffect::Tear(errno),
        Some(2) => FaultEffect::TearSilently,
        Some(3) => FaultEffect::Lose,
        _ => FaultEffect::Fail(errno),
    };
    let number = |count: Option<usize>| count.map(|count| count as u64);
    Ok(Some(FaultRule {
        on: on.map(operations).transpose()?.unwrap_or_default(),
        at: at.map(place).transpose()?,
        after: number(after).unwrap_or(0),
        times: number(times),
        lasts,
        per_million: rate.map(part).transpose()?.unwrap_or(MILLION),
        ..FaultRule::new(effect)
    }))
}

/// `read`, or several: `write+flush`.
fn operations(word: &Word) -> ArgumentResult<Vec<Operation>> {
    let kinds = word.text.split('+').map(|kind| match kind {
        "read" => Ok(Operation::Read),
        "write" => Ok(Operation::Write),
        "flush" => Ok(Operation::Flush),
        "trim" => Ok(Operation::Trim),
        "write-zeroes" => Ok(Operation::WriteZeroes),
        found => {
            let found = found.to_owned();
            Err((word.span, ExpressionProblem::NotAKind { found }))
        }
    });
    kinds.collect()
}

/// `1M+64K`
fn place(word: &Word) -> ArgumentResult<Range> {
    let wrong = || {
        let found = word.text.clone();
        (word.span, ExpressionProblem::NotAPlace { found })
    };
    let (offset, len) = word.text.split_once('+').ok_or_else(wrong)?;
    let size = |text: &str| text.parse::<ByteSize>().map_err(|_| wrong());
    let (ByteSize(offset), ByteSize(len)) = (size(offset)?, size(len)?);
    if len == 0 {
        return Err(wrong());
    }
    Ok(Range::new(offset, len))
}

/// `10%`, `0.5%` or `0.1`, in parts of a million.
fn part(word: &Word) -> ArgumentResult<u32> {
    let text = word.text.as_str();
    let (number, shift) = match text.strip_suffix('%') {
        Some(number) => (number, PERCENT_DIGITS),
        None => (text, PERCENT_DIGITS + 2),
    };
    let (whole, behind) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    let written = is_number(whole) && is_number(behind);
    // `0.1` is 0 and 100000 of a million: the digits behind the point, filled up.
    let digits = format!("{whole}{behind:0<shift$}");
    let parts = digits.parse::<u32>().ok();
    let parts = parts.filter(|parts| written && behind.len() <= shift && *parts <= MILLION);
    parts.filter(|parts| *parts > 0).ok_or_else(|| {
        let found = text.to_owned();
        (word.span, ExpressionProblem::NotAPart { found })
    })
}

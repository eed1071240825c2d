//! Takes the arguments of a call one by one, and refuses what is left over.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::catalog;
use super::error::ExpressionProblem;
use super::size::ByteSize;
use super::syntax::{Argument, Call, Expression, Span, Word};
use super::time::Time;

/// Sizes of blocks that a disk can be given, bytes.
const BLOCK_SIZES: RangeInclusive<u64> = 512..=65_536;
/// Most disks that one call takes.
pub(super) const DISKS_MAX: usize = 1024;
/// How a rate may end, to be read as one.
const PER_SECOND: &str = "/s";

/// The arguments of a call that were not taken yet.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    usage: &'static str,
    name: Span,
    positional: std::vec::IntoIter<&'a Expression>,
    keyed: Vec<&'a Argument>,
    known: Vec<&'static str>,
}

/// What was taken, or what is wrong and where.
pub(super) type ArgumentResult<T> = Result<T, (Span, ExpressionProblem)>;

impl<'a> Arguments<'a> {
    /// All arguments of `call`, which is written like `usage`.
    pub(super) fn of(call: &'a Call, usage: &'static str) -> ArgumentResult<Self> {
        let (keyed, positional): (Vec<_>, Vec<_>) = call
            .arguments
            .iter()
            .partition(|argument| argument.key.is_some());
        for (index, argument) in keyed.iter().enumerate() {
            let Some(key) = &argument.key else { continue };
            let same = |other: &&Argument| other.key.as_ref().is_some_and(|k| k.text == key.text);
            if keyed[..index].iter().any(same) {
                let problem = ExpressionProblem::KeyTwice {
                    key: key.text.clone(),
                };
                return Err((key.span, problem));
            }
        }
        let positional: Vec<_> = positional
            .into_iter()
            .map(|argument| &argument.value)
            .collect();
        Ok(Self {
            usage,
            name: call.name.span,
            positional: positional.into_iter(),
            keyed,
            known: Vec::new(),
        })
    }

    /// The next argument without a key, a disk. `argument` is its name in the usage.
    pub(super) fn disk(&mut self, argument: &'static str) -> ArgumentResult<&'a Expression> {
        let missing = self.missing(argument);
        self.positional.next().ok_or(missing)
    }

    /// The arguments without a key that are left, disks: one at least.
    pub(super) fn disks(&mut self, argument: &'static str) -> ArgumentResult<Vec<&'a Expression>> {
        let mut disks = vec![self.disk(argument)?];
        for disk in self.positional.by_ref() {
            if disks.len() == DISKS_MAX {
                return Err((
                    disk.span(),
                    ExpressionProblem::TooManyDisks { max: DISKS_MAX },
                ));
            }
            disks.push(disk);
        }
        Ok(disks)
    }

    /// The next argument without a key, a number from 1 to `max`.
    pub(super) fn number(&mut self, argument: &'static str, max: usize) -> ArgumentResult<usize> {
        let word = self.word(argument)?;
        as_count(word, max)
    }

    /// The next argument without a key, which is no disk. `argument` is its name in the usage.
    pub(super) fn word(&mut self, argument: &'static str) -> ArgumentResult<&'a Word> {
        as_word(self.disk(argument)?, argument)
    }

    /// The next argument without a key, the size of a disk.
    pub(super) fn disk_size(&mut self, argument: &'static str) -> ArgumentResult<ByteSize> {
        let word = self.word(argument)?;
        let size = word.text.parse::<ByteSize>();
        let size = size.map_err(|error| (word.span, ExpressionProblem::NotASize(error)))?;
        if !size.is_of_a_disk() {
            return Err((word.span, ExpressionProblem::OddSize { size: size.0 }));
        }
        Ok(size)
    }

    /// `key=true` or `key=false`; false if it is not given.
    pub(super) fn switch(&mut self, key: &'static str) -> ArgumentResult<bool> {
        let Some(word) = self.keyed_word(key, "true or false")? else {
            return Ok(false);
        };
        match word.text.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => {
                let found = word.text.clone();
                Err((word.span, ExpressionProblem::NotASwitch { found }))
            }
        }
    }

    /// `key=4` and the like, from 1 to `max`.
    pub(super) fn count(&mut self, key: &'static str, max: usize) -> ArgumentResult<Option<usize>> {
        let word = self.keyed_word(key, "a number")?;
        word.map(|word| as_count(word, max)).transpose()
    }

    /// `key=64K` and the like, within `bounds`, bytes.
    pub(super) fn size(
        &mut self,
        key: &'static str,
        bounds: RangeInclusive<u64>,
    ) -> ArgumentResult<Option<u64>> {
        let word = self.keyed_word(key, "a size like 64K or 1.5G")?;
        word.map(|word| as_size(word, &word.text, bounds))
            .transpose()
    }

    /// `key=10M` or `key=10M/s`, bytes or anything else a second.
    pub(super) fn rate(
        &mut self,
        key: &'static str,
        bounds: RangeInclusive<u64>,
    ) -> ArgumentResult<Option<u64>> {
        let word = self.keyed_word(key, "a rate like 10M/s")?;
        let rate = word.map(|word| {
            let text = word.text.strip_suffix(PER_SECOND).unwrap_or(&word.text);
            as_size(word, text, bounds)
        });
        rate.transpose()
    }

    /// `key=2ms` and the like.
    pub(super) fn time(&mut self, key: &'static str) -> ArgumentResult<Option<Duration>> {
        let Some(word) = self.keyed_word(key, "a time like 2ms or 1.5s")? else {
            return Ok(None);
        };
        let time = word.text.parse::<Time>();
        let time = time.map_err(|error| (word.span, ExpressionProblem::NotATime(error)))?;
        Ok(Some(time.0))
    }

    /// `key=` and one word of `choices`; returns the index of the word.
    pub(super) fn choice(
        &mut self,
        key: &'static str,
        choices: &'static [&'static str],
    ) -> ArgumentResult<Option<usize>> {
        let Some(word) = self.keyed_word(key, "a word")? else {
            return Ok(None);
        };
        let chosen = choices.iter().position(|choice| *choice == word.text);
        if chosen.is_none() {
            let found = word.text.clone();
            return Err((word.span, ExpressionProblem::NotAChoice { found, choices }));
        }
        Ok(chosen)
    }

    /// `key=512` and the like, the size of a disk's blocks. It must be given.
    pub(super) fn block_size(&mut self, argument: &'static str) -> ArgumentResult<u32> {
        let Some(word) = self.keyed_word(argument, "a block size like 512 or 4K")? else {
            return Err(self.missing(argument));
        };
        let size = word.text.parse::<ByteSize>();
        let ByteSize(size) =
            size.map_err(|error| (word.span, ExpressionProblem::NotASize(error)))?;
        let fits = size.is_power_of_two() && BLOCK_SIZES.contains(&size);
        match u32::try_from(size) {
            Ok(size) if fits => Ok(size),
            _ => Err((word.span, ExpressionProblem::NotABlockSize { size })),
        }
    }

    fn keyed(&mut self, key: &'static str) -> Option<&'a Expression> {
        self.known.push(key);
        let is_it = |argument: &&Argument| argument.key.as_ref().is_some_and(|k| k.text == key);
        let index = self.keyed.iter().position(is_it)?;
        Some(&self.keyed.swap_remove(index).value)
    }

    /// `seed=1` and the like; 0 if it is not given.
    pub(super) fn seed(&mut self) -> ArgumentResult<u64> {
        let Some(word) = self.keyed_word("seed", "a number")? else {
            return Ok(0);
        };
        word.text.parse().map_err(|_| {
            let (found, max) = (word.text.clone(), usize::MAX);
            (word.span, ExpressionProblem::NotACount { found, max })
        })
    }

    /// An `argument` is missing that may be given in several ways.
    pub(super) const fn missing(&self, argument: &'static str) -> (Span, ExpressionProblem) {
        let usage = self.usage;
        (self.name, ExpressionProblem::Missing { argument, usage })
    }

    /// The value of `key`, which is no disk: `expected` says what it is.
    pub(super) fn keyed_word(
        &mut self,
        key: &'static str,
        expected: &'static str,
    ) -> ArgumentResult<Option<&'a Word>> {
        let value = self.keyed(key);
        value.map(|value| as_word(value, expected)).transpose()
    }

    /// Refuses arguments that were not taken.
    pub(super) fn finish(mut self) -> ArgumentResult<()> {
        let usage = self.usage;
        if let Some(extra) = self.positional.next() {
            return Err((extra.span(), ExpressionProblem::TooMany { usage }));
        }
        let Some(key) = self
            .keyed
            .first()
            .and_then(|argument| argument.key.as_ref())
        else {
            return Ok(());
        };
        let problem = ExpressionProblem::UnknownKey {
            key: key.text.clone(),
            suggestion: catalog::similar(&key.text, self.known.into_iter()),
            usage,
        };
        Err((key.span, problem))
    }
}

fn as_word<'a>(value: &'a Expression, expected: &'static str) -> ArgumentResult<&'a Word> {
    match value {
        Expression::Word(word) => Ok(word),
        Expression::Call(call) => Err((call.span, ExpressionProblem::NotAWord { expected })),
    }
}

fn as_count(word: &Word, max: usize) -> ArgumentResult<usize> {
    let count = word.text.parse::<usize>().ok();
    count
        .filter(|count| (1..=max).contains(count))
        .ok_or_else(|| {
            let found = word.text.clone();
            (word.span, ExpressionProblem::NotACount { found, max })
        })
}

/// `text`, of `word`, as a size.
fn as_size(word: &Word, text: &str, bounds: RangeInclusive<u64>) -> ArgumentResult<u64> {
    let size = text.parse::<ByteSize>();
    let ByteSize(size) = size.map_err(|error| (word.span, ExpressionProblem::NotASize(error)))?;
    if bounds.contains(&size) {
        return Ok(size);
    }
    let problem = ExpressionProblem::SizeBounds {
        size: ByteSize(size),
        min: ByteSize(*bounds.start()),
        max: ByteSize(*bounds.end()),
    };
    Err((word.span, problem))
}

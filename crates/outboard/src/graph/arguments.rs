//! Takes the arguments of a call one by one, and refuses what is left over.

use super::catalog;
use super::error::Problem;
use super::size::ByteSize;
use super::syntax::{Argument, Call, Expression, Span, Word};

/// Sizes of blocks that a disk can be given, bytes.
const BLOCK_SIZES: std::ops::RangeInclusive<u64> = 512..=65_536;

/// The arguments of a call that were not taken yet.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    usage: &'static str,
    name: Span,
    positional: std::vec::IntoIter<&'a Expression>,
    keyed: Vec<&'a Argument>,
    known: Vec<&'static str>,
}

type Taken<T> = Result<T, (Span, Problem)>;

impl<'a> Arguments<'a> {
    /// All arguments of `call`, which is written like `usage`.
    pub(super) fn of(call: &'a Call, usage: &'static str) -> Taken<Self> {
        let (keyed, positional): (Vec<_>, Vec<_>) = call
            .arguments
            .iter()
            .partition(|argument| argument.key.is_some());
        for (index, argument) in keyed.iter().enumerate() {
            let Some(key) = &argument.key else { continue };
            let same = |other: &&Argument| other.key.as_ref().is_some_and(|k| k.text == key.text);
            if keyed[..index].iter().any(same) {
                let problem = Problem::KeyTwice {
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
    pub(super) fn disk(&mut self, argument: &'static str) -> Taken<&'a Expression> {
        let usage = self.usage;
        let missing = (self.name, Problem::Missing { argument, usage });
        self.positional.next().ok_or(missing)
    }

    /// The next argument without a key, which is no disk. `argument` is its name in the usage.
    pub(super) fn word(&mut self, argument: &'static str) -> Taken<&'a Word> {
        as_word(self.disk(argument)?, argument)
    }

    /// The next argument without a key, the size of a disk.
    pub(super) fn disk_size(&mut self, argument: &'static str) -> Taken<ByteSize> {
        let word = self.word(argument)?;
        let size = word.text.parse::<ByteSize>();
        let size = size.map_err(|error| (word.span, Problem::NotASize(error)))?;
        if !size.is_of_a_disk() {
            return Err((word.span, Problem::OddSize { size: size.0 }));
        }
        Ok(size)
    }

    /// `key=true` or `key=false`; false if it is not given.
    pub(super) fn switch(&mut self, key: &'static str) -> Taken<bool> {
        let Some(value) = self.keyed(key) else {
            return Ok(false);
        };
        let word = as_word(value, "true or false")?;
        match word.text.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => {
                let found = word.text.clone();
                Err((word.span, Problem::NotASwitch { found }))
            }
        }
    }

    /// `key=4` and the like, from 1 to `max`.
    pub(super) fn count(&mut self, key: &'static str, max: usize) -> Taken<Option<usize>> {
        let Some(value) = self.keyed(key) else {
            return Ok(None);
        };
        let word = as_word(value, "a number")?;
        let count = word.text.parse::<usize>().ok();
        let count = count.filter(|count| (1..=max).contains(count));
        if count.is_none() {
            let found = word.text.clone();
            return Err((word.span, Problem::NotACount { found, max }));
        }
        Ok(count)
    }

    /// `key=512` and the like, the size of a disk's blocks. It must be given.
    pub(super) fn block_size(&mut self, argument: &'static str) -> Taken<u32> {
        let Some(value) = self.keyed(argument) else {
            let usage = self.usage;
            return Err((self.name, Problem::Missing { argument, usage }));
        };
        let word = as_word(value, "a block size like 512 or 4K")?;
        let size = word.text.parse::<ByteSize>();
        let ByteSize(size) = size.map_err(|error| (word.span, Problem::NotASize(error)))?;
        let fits = size.is_power_of_two() && BLOCK_SIZES.contains(&size);
        match u32::try_from(size) {
            Ok(size) if fits => Ok(size),
            _ => Err((word.span, Problem::NotABlockSize { size })),
        }
    }

    fn keyed(&mut self, key: &'static str) -> Option<&'a Expression> {
        self.known.push(key);
        let is_it = |argument: &&Argument| argument.key.as_ref().is_some_and(|k| k.text == key);
        let index = self.keyed.iter().position(is_it)?;
        Some(&self.keyed.swap_remove(index).value)
    }

    /// Refuses whatever was not taken.
    pub(super) fn finish(mut self) -> Taken<()> {
        let usage = self.usage;
        if let Some(extra) = self.positional.next() {
            return Err((extra.span(), Problem::TooMany { usage }));
        }
        let Some(key) = self
            .keyed
            .first()
            .and_then(|argument| argument.key.as_ref())
        else {
            return Ok(());
        };
        let problem = Problem::UnknownKey {
            key: key.text.clone(),
            suggestion: catalog::similar(&key.text, self.known.into_iter()),
            usage,
        };
        Err((key.span, problem))
    }
}

fn as_word<'a>(value: &'a Expression, expected: &'static str) -> Taken<&'a Word> {
    match value {
        Expression::Word(word) => Ok(word),
        Expression::Call(call) => Err((call.span, Problem::NotAWord { expected })),
    }
}

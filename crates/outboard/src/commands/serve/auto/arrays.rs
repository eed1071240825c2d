//! Which arrays are served under which names, and why others are not. Pure.
//!
//! A read-only array is served with the members that are available, so that the data of a dead machine's disks can be
//! read. A writable one starts only as `array(…)` would. An array whose members are arrays, or partitions of them,
//! is an expression within an expression.

use std::collections::BTreeMap;

use super::choose::{Choice, chosen_of};
use crate::commands::inspect::{Array, ContentSource, SourceBase};
use crate::graph::{ExpressionError, NamedDisk, as_argument, resolve};

/// Arrays within arrays.
const DEPTH_MAX: usize = 8;

/// Chooses what of the arrays on `disks` is served.
pub(super) fn choose(disks: &[NamedDisk], arrays: &[Array], writable: bool) -> Choice {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for array in arrays {
        *names.entry(&array.name).or_default() += 1;
    }
    let mut choice = Choice::default();
    for array in arrays {
        let mut name = format!("md/{}", array.name);
        if names[array.name.as_str()] > 1 || array.name.is_empty() {
            let (first, _) = array.uuid.split_once(':').unwrap_or_default();
            name = format!("{name}-{first}");
        }
        let mut found = of_array(disks, arrays, array, &name, writable);
        choice.chosen.append(&mut found.chosen);
        choice.left_out.append(&mut found.left_out);
    }
    choice
}

fn of_array(
    disks: &[NamedDisk],
    arrays: &[Array],
    array: &Array,
    name: &str,
    writable: bool,
) -> Choice {
    let mut left_out = Choice::default();
    let Some(content) = &array.content else {
        let why = array.remarks.last().cloned();
        let why = why.unwrap_or_else(|| "too many of its members are missing".to_owned());
        left_out.leave_out(name.to_owned(), why);
        return left_out;
    };
    let sources = Sources {
        disks,
        arrays,
        run: !writable,
    };
    let named = match sources.array(array, 0) {
        Ok(Some(text)) => resolve(&text),
        Ok(None) => {
            left_out.leave_out(name.to_owned(), "its members lie in volumes");
            return left_out;
        }
        Err(error) => Err(error),
    };
    let named = match named {
        Ok(named) => named,
        Err(error) => {
            left_out.leave_out(name.to_owned(), error.to_string());
            return left_out;
        }
    };
    let prefix = format!("{name}/");
    let kind = format!("{} array", array.level);
    chosen_of(&named, (name, &prefix), content, Some(&kind))
}

/// What expressions are made of.
struct Sources<'a> {
    disks: &'a [NamedDisk],
    arrays: &'a [Array],
    /// Start with members missing.
    run: bool,
}

impl Sources<'_> {
    /// The array, as it would be written; `None`: it cannot be. `depth`: arrays around it.
    fn array(&self, array: &Array, depth: usize) -> Result<Option<String>, ExpressionError> {
        let mut arguments = Vec::with_capacity(array.members.len() + 1);
        for member in &array.members {
            let member = member.source.as_ref();
            let Some(source) = member.filter(|_| depth < DEPTH_MAX) else {
                return Ok(None);
            };
            let Some(argument) = self.argument(source, depth)? else {
                return Ok(None);
            };
            arguments.push(argument);
        }
        if self.run {
            arguments.push("run=true".to_owned());
        }
        Ok(Some(format!("array({})", arguments.join(", "))))
    }

    /// A member, as an argument of its array.
    fn argument(
        &self,
        source: &ContentSource,
        depth: usize,
    ) -> Result<Option<String>, ExpressionError> {
        let whole = match &source.base {
            SourceBase::Disk(disk) => Some(as_argument(&self.disks[*disk].text)?),
            SourceBase::Array(uuid) => {
                let mut arrays = self.arrays.iter();
                match arrays.find(|array| array.uuid == *uuid) {
                    Some(array) => self.array(array, depth + 1)?,
                    None => None,
                }
            }
        };
        let partition = |disk: String, number: &u32| format!("partition({disk}, {number})");
        Ok(whole.map(|whole| source.partitions.iter().fold(whole, partition)))
    }
}

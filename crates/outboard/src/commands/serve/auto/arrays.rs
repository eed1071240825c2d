//! Which arrays are served under which names, and why others are not. Pure.
//!
//! A read-only array is served with the members that are available, so that the data of a dead machine's disks can be
//! read. A writable one starts only as `array(…)` would. An array whose members are arrays, or partitions of them,
//! is an expression within an expression.

use std::collections::BTreeMap;

use super::choose::{Choice, chosen_of};
use super::sources::Sources;
use crate::commands::inspect::Array;
use crate::graph::resolve;

/// Chooses what of the arrays on the disks is served.
pub(super) fn choose(sources: Sources<'_>) -> Choice {
    let arrays = sources.arrays;
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
        let mut found = of_array(sources, array, &name);
        choice.chosen.append(&mut found.chosen);
        choice.left_out.append(&mut found.left_out);
    }
    choice
}

fn of_array(sources: Sources<'_>, array: &Array, name: &str) -> Choice {
    let mut left_out = Choice::default();
    let Some(content) = &array.content else {
        let why = array.remarks.last().cloned();
        let why = why.unwrap_or_else(|| "too many of its members are missing".to_owned());
        left_out.leave_out(name.to_owned(), why);
        return left_out;
    };
    let named = match sources.array(array, 0) {
        Ok(Some(text)) => resolve(&text),
        Ok(None) => {
            left_out.leave_out(name.to_owned(), "disks are nested too deep");
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

//! Which arrays are served under which names, and why others are not. Pure.
//!
//! An array is served with whatever members are here if nothing is written: who has the disks of a dead machine
//! gets at what is on them. Where it is to be written it starts only as `array(…)` would.

use std::collections::BTreeMap;

use super::choose::{Choice, chosen_of};
use crate::commands::inspect::{Array, Source};
use crate::graph::{ExpressionError, NamedDisk, as_argument, resolve};

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
        let mut found = of_array(disks, array, &name, writable);
        choice.chosen.append(&mut found.chosen);
        choice.left_out.append(&mut found.left_out);
    }
    choice
}

fn of_array(disks: &[NamedDisk], array: &Array, name: &str, writable: bool) -> Choice {
    let mut left_out = Choice::default();
    let Some(content) = &array.content else {
        let why = array.remarks.last().cloned();
        let why = why.unwrap_or_else(|| "too many of its members are missing".to_owned());
        left_out.leave_out(name.to_owned(), why);
        return left_out;
    };
    let sources: Option<Vec<&Source>> = array.members.iter().map(|m| m.source.as_ref()).collect();
    let Some(sources) = sources else {
        left_out.leave_out(name.to_owned(), "its members lie in other arrays");
        return left_out;
    };
    let named = match expression(disks, &sources, !writable) {
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

/// The array, as it would be written.
fn expression(
    disks: &[NamedDisk],
    members: &[&Source],
    run: bool,
) -> Result<NamedDisk, ExpressionError> {
    let mut arguments = Vec::with_capacity(members.len() + 1);
    for member in members {
        let whole = as_argument(&disks[member.disk].text)?;
        let partition = |disk: String, number: &u32| format!("partition({disk}, {number})");
        arguments.push(member.partitions.iter().fold(whole, partition));
    }
    if run {
        arguments.push("run=true".to_owned());
    }
    resolve(&format!("array({})", arguments.join(", ")))
}

//! Which logical volumes are served under which names, and why others are not. Pure.
//!
//! A volume is an expression over the disks of its group, which may be partitions or arrays: those of a NAS are
//! volumes on an array of partitions.

use std::collections::BTreeMap;

use super::choose::{Choice, chosen_of};
use super::sources::Sources;
use crate::commands::inspect::{Group, Volume};
use crate::graph::resolve;

/// Chooses which volumes of the groups on the disks are served.
pub(super) fn choose(sources: Sources<'_>, writable: bool) -> Choice {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for group in sources.groups {
        *names.entry(&group.name).or_default() += 1;
    }
    let mut choice = Choice::default();
    for group in sources.groups {
        let mut prefix = format!("lvm/{}", group.name);
        if names[group.name.as_str()] > 1 {
            let (first, _) = group.uuid.split_once('-').unwrap_or_default();
            prefix = format!("{prefix}-{first}");
        }
        let shown = group.volumes.iter().filter(|volume| volume.visible);
        for volume in
            shown.filter(|volume| volume.kind != "thin-pool" && volume.kind != "cache-pool")
        {
            let name = format!("{prefix}/{}", volume.name);
            let mut found = match group.refusal(writable) {
                Some(why) => Choice::without(name, why),
                None => of_volume(sources, group, volume, &name),
            };
            choice.chosen.append(&mut found.chosen);
            choice.left_out.append(&mut found.left_out);
        }
    }
    choice
}

fn of_volume(sources: Sources<'_>, group: &Group, volume: &Volume, name: &str) -> Choice {
    let without = |why: String| Choice::without(name.to_owned(), why);
    let Some(content) = &volume.content else {
        return without(why_not(volume));
    };
    let named = match sources.volume(group, &volume.name, 0) {
        Ok(Some(text)) => resolve(&text),
        Ok(None) => return without("disks are nested too deep".to_owned()),
        Err(error) => Err(error),
    };
    match named {
        Ok(named) => {
            let (prefix, kind) = (format!("{name}/"), format!("{} volume", volume.kind));
            chosen_of(&named, (name, &prefix), content, Some(&kind))
        }
        Err(error) => without(error.to_string()),
    }
}

fn why_not(volume: &Volume) -> String {
    match &volume.problem {
        Some(problem) => problem.clone(),
        None if volume.partial => "a physical volume that it needs is missing".to_owned(),
        None => "it was not looked into".to_owned(),
    }
}

//! Which files of a kernel's modules folder a list of modules needs, from its own `modules.dep`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

/// The files that `wanted` and everything below them are in, relative to the modules folder.
///
/// A module that is built into the kernel needs no file; one that is nowhere is an error.
pub(super) fn closure(dep: &str, builtin: &str, wanted: &[&str]) -> Result<BTreeSet<String>> {
    let needs: BTreeMap<String, (&str, Vec<&str>)> = dep
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, rest)| (name(file), (file, rest.split_whitespace().collect())))
        .collect();
    let built_in: BTreeSet<String> = builtin.lines().map(name).collect();
    let mut files = BTreeSet::new();
    for module in wanted {
        match needs.get(&module.replace('-', "_")) {
            // depmod writes the whole closure on each line, so one level is enough.
            Some((file, below)) => {
                files.insert((*file).to_owned());
                files.extend(below.iter().map(|file| (*file).to_owned()));
            }
            None if built_in.contains(&module.replace('-', "_")) => {}
            None => bail!("the guest's kernel has no module {module}"),
        }
    }
    Ok(files)
}

/// The lines of `dep` for modules in `files`.
pub(super) fn only(dep: &str, files: &BTreeSet<String>) -> String {
    let kept = dep.lines().filter(|line| {
        line.split_once(':')
            .is_some_and(|(file, _)| files.contains(file))
    });
    kept.map(|line| format!("{line}\n")).collect()
}

/// The module's name: its file without folder and endings, `-` and `_` being the same.
fn name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    let stem = base.split_once(".ko").map_or(base, |(stem, _)| stem);
    stem.replace('-', "_")
}

//! Whether a second build gives equal bytes: a clone of this commit, in a folder whose name has another length, builds
//! the same files, and each is compared with the first.
//!
//! # Invariants
//!
//! * The clone has a target folder and objects of its own: nothing that the first build made or had is used.
//! * A tree with changes that are not committed is refused: the clone would lack them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// The folder of the clone, below the target folder.
const CLONE: &str = "again/a-clone-in-a-folder-whose-name-is-longer";

/// Fails when the tree has changes that are not committed.
pub(super) fn ensure_committed() -> Result<()> {
    let mut git = std::process::Command::new("git");
    git.args(["status", "--porcelain"])
        .current_dir(shell::root());
    let changes = shell::output(&mut git)?;
    ensure!(
        changes.is_empty(),
        "a second build is one of the commit; not committed:\n{changes}"
    );
    Ok(())
}

/// Builds once more with these arguments of `cargo xtask package`, and compares with what was made.
pub(super) fn run(made: &[PathBuf], arguments: &[&str]) -> Result<()> {
    let clone = shell::target().join(CLONE);
    fs::remove_dir_all(&clone).ok();
    let mut git = std::process::Command::new("git");
    // As over a network: the clone has the objects of this commit's history, and no others.
    git.args(["clone", "--quiet", "--no-local"])
        .arg(shell::root())
        .arg(&clone);
    shell::run(&mut git)?;
    let mut command = shell::cargo(["xtask", "package"]);
    command
        .args(arguments)
        .current_dir(&clone)
        .env_remove("CARGO_TARGET_DIR");
    shell::run(&mut command)?;
    let first = read(made)?;
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    let folder = clone.join("target/packages");
    let files = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let files: Vec<PathBuf> = files.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    compare(&first, &read(&files)?)?;
    println!("two builds give equal bytes: {}", names.join(", "));
    fs::remove_dir_all(shell::target().join("again"))?;
    Ok(())
}

/// Files by their names.
fn read(files: &[PathBuf]) -> Result<BTreeMap<String, Vec<u8>>> {
    let files = files.iter();
    files
        .map(|file| {
            let name = file.file_name().context("a file has a name")?;
            Ok((name.to_string_lossy().into_owned(), fs::read(file)?))
        })
        .collect()
}

/// Fails with the names of the files that are not in both or differ, and the first byte in which they do.
fn compare(first: &BTreeMap<String, Vec<u8>>, second: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let mut differences = Vec::new();
    for (name, bytes) in first {
        match second.get(name) {
            None => differences.push(format!("{name} is in the first build alone")),
            Some(other) if other != bytes => {
                let pairs = bytes.iter().zip(other);
                let equal = pairs.take_while(|(a, b)| a == b).count();
                differences.push(format!(
                    "{name}: {} and {} bytes, equal up to byte {equal}",
                    bytes.len(),
                    other.len()
                ));
            }
            Some(_) => {}
        }
    }
    for name in second.keys().filter(|name| !first.contains_key(*name)) {
        differences.push(format!("{name} is in the second build alone"));
    }
    ensure!(!first.is_empty(), "the first build made nothing");
    if !differences.is_empty() {
        bail!("two builds differ: {}", differences.join("; "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        let pairs = list.iter();
        pairs
            .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn differences_are_named() {
        let first = files(&[("a.deb", "same"), ("b.deb", "one"), ("c.deb", "x")]);
        let second = files(&[("a.deb", "same"), ("b.deb", "ore"), ("d.deb", "x")]);
        assert!(compare(&first, &first).is_ok());
        let said = compare(&first, &second).map_err(|error| error.to_string());
        assert_eq!(
            said,
            Err("two builds differ: b.deb: 3 and 3 bytes, equal up to byte 1; c.deb is in the first build alone; \
                 d.deb is in the second build alone"
                .to_owned())
        );
        assert!(compare(&files(&[]), &files(&[])).is_err());
    }
}

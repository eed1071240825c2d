//! The test binaries, as cargo builds them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::selection::Selection;
use crate::shell;

/// One program with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binary {
    /// The package, and the target where it has another name: `nodes`, `outboard cli`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The package's folder: tests run in it.
    pub(super) folder: PathBuf,
    pub(super) size: u64,
    /// The tests that a part of their names selects; all where none is given.
    pub(super) selected: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    package_id: Option<String>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// What cargo built.
#[derive(Debug)]
pub(super) struct Built {
    /// The largest come first, they have the most tests.
    pub(super) tests: Vec<Binary>,
    /// Programs and examples of the packages that were selected, by name.
    pub(super) programs: BTreeMap<String, PathBuf>,
}

/// Builds what is selected with cargo's progress.
pub(super) fn build(selection: &Selection, profile: Option<&str>) -> Result<Built> {
    let mut arguments = selection.arguments();
    arguments.extend(profile.map(|profile| format!("--profile={profile}")));
    let messages = messages(&arguments)?;
    let mut binaries = parse(&messages);
    for binary in &mut binaries {
        binary.size = std::fs::metadata(&binary.path)?.len();
        let test = selection.test.as_deref();
        binary.selected = test.map(|part| list(&binary.path, part)).transpose()?;
    }
    binaries.sort_by_key(|binary| std::cmp::Reverse(binary.size));
    Ok(Built {
        tests: binaries,
        programs: programs(&messages),
    })
}

/// The programs with tests that are built with `arguments`.
pub(super) fn build_with(arguments: &[String]) -> Result<Vec<Binary>> {
    Ok(parse(&messages(arguments)?))
}

/// What cargo reports of the tests that it builds with `arguments`.
fn messages(arguments: &[String]) -> Result<String> {
    let mut command = shell::cargo([
        "test",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    command.args(arguments).stdin(Stdio::null());
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", shell::words(&command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shell::words(&command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The tests of a program with `part` in their names.
fn list(program: &Path, part: &str) -> Result<Vec<String>> {
    let mut command = Command::new(program);
    let printed = shell::output(command.args(["--list", "--format", "terse", part]))?;
    let tests = printed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    Ok(tests.map(str::to_owned).collect())
}

/// The programs that cargo's messages name.
pub(super) fn parse(messages: &str) -> Vec<Binary> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(binary)
        .collect()
}

/// The programs that are no tests.
pub(super) fn programs(messages: &str) -> BTreeMap<String, PathBuf> {
    let messages = messages.lines();
    let messages = messages.filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let named = messages.filter_map(|message| match message.profile?.test {
        true => None,
        false => Some((message.target?.name, message.executable?)),
    });
    named.collect()
}

fn binary(message: Message) -> Option<Binary> {
    if !message.profile?.test {
        return None;
    }
    let (path, target) = (message.executable?, message.target?.name);
    let folder = message.manifest_path?.parent()?.to_path_buf();
    let package = package(&message.package_id?)?.to_owned();
    let name = match target.replace('_', "-") == package {
        true => package,
        false => format!("{package} {target}"),
    };
    Some(Binary {
        name,
        path,
        folder,
        size: 0,
        selected: None,
    })
}

/// The name in `path+file:///folder/nbd#0.1.0` or `path+file:///folder/tests#outboard-tests@0.1.0`.
fn package(id: &str) -> Option<&str> {
    let (place, version) = id.rsplit_once('#')?;
    match version.split_once('@') {
        Some((name, _)) => Some(name),
        None => place.rsplit('/').next(),
    }
}

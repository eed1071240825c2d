//! Which packages are built, and which tests of them run, for `cargo xtask test NAME`.
//!
//! NAME is a package (`nbd`), a program of tests (`guides`, `cli`), or a part of a test's path
//! (`server::tests::bounds`, `a_full_disk`). For the latter only the packages are built that define such a
//! function or have such a module, so that one test runs in seconds.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use toml::Table;

use crate::shell;

/// The package with the tests that run the binary and are not in its own.
const TESTS: &str = "outboard-tests";

/// What is built and run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    /// All where none is named.
    pub(super) packages: Vec<Package>,
    /// One program of tests in `tests/` of the package.
    pub(super) target: Option<String>,
    /// A part of the names of tests.
    pub(super) test: Option<String>,
}

/// A member of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

impl Selection {
    /// What a name selects; without one everything.
    pub(super) fn of(filter: Option<&str>) -> Result<Self> {
        match filter {
            None => Ok(Self::default()),
            Some(filter) => Self::find(filter, members(&shell::root())?),
        }
    }

    /// The same among some packages.
    pub(super) fn find(filter: &str, members: Vec<Package>) -> Result<Self> {
        if let Some(package) = members.iter().find(|package| package.name == filter) {
            return Ok(Self {
                packages: vec![package.clone()],
                ..Self::default()
            });
        }
        if let Some(package) = members.iter().find(|package| has_target(package, filter)) {
            return Ok(Self {
                packages: vec![package.clone()],
                target: Some(filter.to_owned()),
                test: None,
            });
        }
        let with_test = |package: &Package| {
            let mut files = Vec::new();
            rust_files(&package.folder, &mut files);
            files.iter().any(|path| {
                let module = path.strip_prefix(&package.folder).unwrap_or(path);
                is_in_module(module, filter) || defines(path, filter)
            })
        };
        let packages: Vec<Package> = members.into_iter().filter(with_test).collect();
        if packages.is_empty() {
            bail!("no package, no program of tests and no test is called {filter}");
        }
        Ok(Self {
            packages,
            target: None,
            test: Some(filter.to_owned()),
        })
    }

    /// What cargo builds.
    pub(super) fn arguments(&self) -> Vec<String> {
        if self.packages.is_empty() {
            return vec!["--workspace".to_owned()];
        }
        let packages = self.packages.iter();
        let mut arguments: Vec<String> = packages
            .flat_map(|package| ["--package".to_owned(), package.name.clone()])
            .collect();
        if let Some(target) = &self.target {
            arguments.extend(["--test".to_owned(), target.clone()]);
        }
        arguments
    }

    /// Whether tests that run the binary may be among them.
    pub(super) fn needs_outboard(&self) -> bool {
        self.packages.is_empty() || self.packages.iter().any(|package| package.name == TESTS)
    }

    /// Whether the examples in the documentation are part of it: they are of whole packages.
    pub(super) fn has_doc_tests(&self) -> bool {
        let mut packages = self.packages.iter();
        self.test.is_none()
            && self.target.is_none()
            && packages.all(|package| package.folder.join("src/lib.rs").exists())
    }
}

/// The packages of the workspace.
fn members(root: &Path) -> Result<Vec<Package>> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root.join("crates"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    folders.sort();
    folders.extend([root.join("tests"), root.join("xtask")]);
    let mut members = Vec::new();
    for folder in folders {
        let manifest: Table = std::fs::read_to_string(folder.join("Cargo.toml"))?.parse()?;
        let name = manifest
            .get("package")
            .and_then(|table| table.get("name")?.as_str());
        members.extend(name.map(|name| Package {
            name: name.to_owned(),
            folder: folder.clone(),
        }));
    }
    Ok(members)
}

fn has_target(package: &Package, name: &str) -> bool {
    let path = package.folder.join("tests").join(name);
    path.join("main.rs").exists() || path.with_extension("rs").exists()
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// Whether a file is a module with the name: `src/server/bounds.rs` and `server::bounds`.
fn is_in_module(path: &Path, name: &str) -> bool {
    let module = path.with_extension("").to_string_lossy().replace('/', "::");
    module.contains(name)
}

/// Whether a file defines a function with the last part of the name.
fn defines(path: &Path, name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| {
        let line = line.trim_start().trim_start_matches("async ");
        let function = line
            .strip_prefix("fn ")
            .and_then(|rest| rest.split('(').next());
        function.is_some_and(|function| function.contains(last))
    })
}

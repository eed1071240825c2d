//! The lab's report and the live page in headless Chromium: `tests/browser/report.js` on pages that the real
//! `outboard lab report` makes of a store of made-up runs, and `tests/browser/live.js` on servers that it starts.
//!
//! Playwright is installed next to the builds and not in the repository, from the lock file and without a
//! browser of its own. Nothing is measured here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{clock, packages, shell};

/// Where Debian has it.
const CHROMIUM: &str = "/usr/bin/chromium";
/// The mark: no page is larger, not that of 100,000 samples either.
const SIZE_MAX: u64 = 2_000_000;
/// What the scripts need, and how it is installed.
const LOCKED: [&str; 2] = ["package.json", "package-lock.json"];
/// The example of the lab that makes up a store of runs.
const STORE_EXAMPLE: &str = "synthetic_store";
/// What is installed.
const PACKAGES: [&str; 2] = ["playwright-core", "axe-core"];

/// Makes the pages and has them looked at; what is missing is installed, or the step fails.
pub(crate) fn run(outboard: &Path) -> Result<()> {
    install()?;
    look(outboard)
}

/// The same where everything is there; else says what is missing.
pub(crate) fn run_if_possible(outboard: &Path) -> Result<()> {
    let missing = [("chromium", Path::new(CHROMIUM).exists())]
        .into_iter()
        .chain(["node", "npm"].map(|program| (program, runs(program))))
        .find(|(_, is_there)| !is_there);
    if let Some((program, _)) = missing {
        println!("skipped: report and live page in a browser, since {program} is not installed");
        return Ok(());
    }
    look(outboard)
}

fn runs(program: &str) -> bool {
    shell::output(Command::new(program).arg("--version")).is_ok()
}

fn look(outboard: &Path) -> Result<()> {
    let modules = playwright()?;
    let pages = pages(outboard)?;
    shell::run(node(&modules, "report.js").arg(pages))?;
    let live = empty_folder("browser/live")?;
    shell::run(node(&modules, "live.js").arg(outboard).arg(live))
}

/// A script of `tests/browser`, with Chromium as its first argument; what is missing is installed.
pub(crate) fn script(name: &str) -> Result<Command> {
    install()?;
    Ok(node(&playwright()?, name))
}

fn node(modules: &Path, script: &str) -> Command {
    let mut node = Command::new("node");
    node.arg(shell::root().join("tests/browser").join(script));
    node.arg(CHROMIUM).env("NODE_PATH", modules);
    node
}

fn install() -> Result<()> {
    packages::ensure(&[packages::BROWSER])?;
    if !runs("npm") {
        packages::ensure(&[packages::NPM])?;
    }
    Ok(())
}

/// A folder of the builds without what the last run left.
fn empty_folder(name: &str) -> Result<PathBuf> {
    let folder = shell::target().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Installs what is locked, unless it is there already; gives the folder of the modules.
fn playwright() -> Result<PathBuf> {
    let (from, to) = (
        shell::root().join("tests/browser"),
        shell::target().join("browser"),
    );
    let modules = to.join("node_modules");
    let same = |name: &&str| {
        let (wanted, there) = (fs::read(from.join(name)), fs::read(to.join(name)));
        matches!((wanted, there), (Ok(wanted), Ok(there)) if wanted == there)
    };
    let is_installed = PACKAGES.iter().all(|name| modules.join(name).exists());
    if is_installed && LOCKED.iter().all(same) {
        return Ok(modules);
    }
    fs::create_dir_all(&to)?;
    for name in LOCKED {
        fs::copy(from.join(name), to.join(name))
            .with_context(|| format!("cannot copy {name} of tests/browser"))?;
    }
    shell::run(
        Command::new("npm")
            .args([
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--silent",
            ])
            .current_dir(&to),
    )?;
    Ok(modules)
}

/// A page with its JSON for each made-up run, in a folder of their own.
fn pages(outboard: &Path) -> Result<PathBuf> {
    let folder = empty_folder("browser/pages")?;
    let store = folder.join("lab.sqlite");
    let mut example = match shell::built(STORE_EXAMPLE) {
        Some(built) => Command::new(built),
        None => {
            let mut cargo = shell::cargo(["run", "--quiet"]);
            cargo.args(["--example", STORE_EXAMPLE, "--"]);
            cargo
        }
    };
    shell::run(example.arg(&store))?;
    let runs = shell::output(
        Command::new(outboard)
            .args(["--json", "lab", "list", "--store"])
            .arg(&store),
    )?;
    let count = runs.matches("\"id\":").count();
    if count == 0 {
        bail!("no runs were made up: {runs}");
    }
    for run in 1..=count {
        let begin = clock::now();
        shell::output(
            Command::new(outboard)
                .args(["lab", "report", &run.to_string(), "--open-path", "--store"])
                .arg(&store)
                .arg("--output")
                .arg(folder.join(format!("{run}.html"))),
        )?;
        let size = fs::metadata(folder.join(format!("{run}.html")))?.len();
        println!(
            "{run}.html: {size} bytes, made in {:.2} s",
            begin.elapsed().as_secs_f64()
        );
        if size > SIZE_MAX {
            bail!("{run}.html has {size} bytes, more than {SIZE_MAX}");
        }
    }
    Ok(folder)
}

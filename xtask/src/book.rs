//! `cargo xtask book`: the guides as a book with a search, in `target/book`.
//!
//! `docs/SUMMARY.md` is its contents; `tidy` checks that no guide is absent there and that links lead somewhere. mdBook is
//! installed below the target folder once.

use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// The version whose output was looked at.
const MDBOOK: &str = "0.5.4";

/// Makes the book and prints where it is.
pub(crate) fn run() -> Result<()> {
    let tools = shell::target().join("tools");
    let program = tools.join("bin/mdbook");
    let wanted = format!("mdbook v{MDBOOK}");
    let installed = shell::output(Command::new(&program).arg("--version"));
    if !installed.is_ok_and(|version| version.trim() == wanted) {
        let mut install = shell::cargo(["install", "mdbook", "--locked", "--version", MDBOOK]);
        install
            .args(["--no-default-features", "--features", "search", "--root"])
            .arg(&tools);
        shell::run(&mut install).context("mdBook is not installed")?;
    }
    let to = shell::target().join("book");
    let mut build = Command::new(&program);
    build
        .arg("build")
        .arg(shell::root().join("docs"))
        .arg("--dest-dir")
        .arg(&to);
    shell::run(&mut build)?;
    println!("{}", to.join("index.html").display());
    Ok(())
}

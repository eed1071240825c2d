//! A newcomer's session from the package alone, in a booted Debian: installed, read about, configured, started, attached,
//! watched in Chromium and purged. What is done inside is in `tests/package/newcomer.sh`, what the browser checks in
//! `tests/browser/newcomer.js`.
//!
//! The container has this machine's network, so that the browser of this machine reaches the page; its two ports are free
//! ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::check;
use crate::servers::free_port;
use crate::systemd::{self, Network};
use crate::{browser, clock, packages, shell};

/// A Debian that boots and has manual pages; what the package needs, and nothing else.
const INCLUDED: &str = "adduser,libgcc-s1,bash,systemd,systemd-sysv,dbus,e2fsprogs,man-db";
/// From the boot to the step with the page.
const PAGE_WITHIN: Duration = Duration::from_mins(3);
const PAUSE: Duration = Duration::from_millis(200);

/// Has the session with the packages that were made.
pub(super) fn run(made: &[PathBuf]) -> Result<()> {
    packages::ensure(&[packages::PACKAGE_CHECK, packages::UNITS])?;
    let root = check::debian("newcomer", INCLUDED)?;
    let root = root.path();
    check::copy_packages(made, root)?;
    systemd::put_steps(root, &shell::root().join("tests/package/newcomer.sh"))?;
    let settings = format!("nbd={}\nhttp={}\n", free_port()?, free_port()?);
    fs::write(root.join(systemd::FOLDER).join("ports"), settings)?;
    let browser = browser::script("newcomer.js")?;
    let watch = || {
        let url = page(root)?;
        let mut browser = browser;
        shell::run(browser.arg(url))?;
        fs::write(root.join(systemd::FOLDER).join("seen"), "")?;
        Ok(())
    };
    systemd::boot(root, Network::Shared, watch).context("a newcomer's session failed")?;
    println!("newcomer: ok");
    Ok(())
}

/// The page's address, once the steps have come that far.
fn page(root: &Path) -> Result<String> {
    let begin = clock::now();
    while begin.elapsed() < PAGE_WITHIN {
        if let Ok(url) = systemd::left(root, "page") {
            return Ok(url.trim().to_owned());
        }
        if systemd::left(root, "status").is_ok() {
            bail!("the steps ended before the page");
        }
        std::thread::sleep(PAUSE);
    }
    bail!("no page within {} s", PAGE_WITHIN.as_secs())
}

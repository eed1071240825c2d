//! [`boot`]: a Debian with systemd in a container, in which a script does its steps as an administrator would.
//!
//! The script's exit status is the verdict. It needs root and control groups.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell;

/// The release of each Debian that is booted.
pub(crate) const RELEASE: &str = "bookworm";
/// Longer than a boot, all steps and a stop.
const LIMIT_SECONDS: &str = "240";
/// Where the steps run, in the container.
pub(crate) const FOLDER: &str = "var/lib/steps";
/// Runs the steps once the system is up, and ends it with their status.
const UNIT: &str = "[Unit]
Description=steps of the test
After=dbus.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cd /var/lib/steps; sh ./steps.sh >output 2>&1; echo $? >status; systemctl poweroff'
[Install]
WantedBy=multi-user.target
";

/// Makes the devices of FUSE and of loop before anything is attached: a container has no devices but the least.
const DEVICES: &str = "[Unit]
Description=devices of the test
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'mknod /dev/fuse c 10 229; mknod /dev/loop-control c 10 237; \
    for number in $$(seq 0 63); do mknod /dev/loop$$number b 7 $$number; done'
[Install]
WantedBy=sysinit.target
";

/// Which network the container has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// A loopback of its own.
    Own,
    /// That of this machine.
    Shared,
}

/// A file that a step left.
pub(crate) fn left(root: &Path, name: &str) -> Result<String> {
    let file = root.join(FOLDER).join(name);
    fs::read_to_string(&file).with_context(|| format!("the steps left no {name}"))
}

/// Puts the script into a Debian, where it runs at boot.
pub(crate) fn put_steps(root: &Path, script: &Path) -> Result<()> {
    let folder = root.join(FOLDER);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder)?;
    fs::copy(script, folder.join("steps.sh"))
        .with_context(|| format!("cannot copy {}", script.display()))?;
    let units = root.join("etc/systemd/system");
    fs::write(units.join("check.service"), UNIT)?;
    fs::write(units.join("devices.service"), DEVICES)?;
    let mut enable = Command::new("systemctl");
    enable.arg("--root").arg(root);
    enable.args(["enable", "check", "devices"]);
    shell::output(&mut enable).map(drop)
}

/// Boots it, and prints the output of its steps; `meanwhile` runs until they have ended, or less.
pub(crate) fn boot(
    root: &Path,
    network: Network,
    meanwhile: impl FnOnce() -> Result<()> + Send,
) -> Result<()> {
    let mut boot = Command::new("timeout");
    boot.args([LIMIT_SECONDS, "systemd-nspawn", "--quiet", "--boot"]);
    // No other service of this machine is involved.
    boot.args(["--register=no", "--keep-unit"]);
    if network == Network::Own {
        boot.arg("--private-network");
    }
    boot.arg("--volatile=no").arg("--directory").arg(root);
    let (booted, met) = std::thread::scope(|scope| {
        let meanwhile = scope.spawn(meanwhile);
        let booted = shell::output(&mut boot);
        (booted, meanwhile.join())
    });
    print!("{}", left(root, "output").unwrap_or_default());
    match met {
        Ok(outcome) => outcome?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    let Ok(status) = left(root, "status") else {
        return booted.map(drop).context("the steps did not end");
    };
    ensure!(
        status.trim() == "0",
        "the steps ended with status {}",
        status.trim()
    );
    Ok(())
}

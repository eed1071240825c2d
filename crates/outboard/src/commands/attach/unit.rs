//! What attaches a disk at boot: a systemd unit and a line for `/etc/fstab`. Pure.
//!
//! The unit attaches; the line mounts, by a name that does not depend on the device's number. systemd takes
//! the name for no device of udev's, so nothing waits for one: the order comes from
//! `x-systemd.requires`, and `_netdev` keeps the mount behind the network and before its end.

use std::path::Path;

use attach::{AttachRequest, Source, Via};
use serde::Serialize;

/// The default for how long a unit tries to reach its server at boot: both may have lost
/// their power together, and the one with the disks takes longer.
pub(super) const WAIT_SECONDS: u64 = 300;
/// What starting takes in addition to the wait, and stopping at most: every step of a teardown has its limit.
const MARGIN_SECONDS: u64 = 60;
const STOP_SECONDS: u64 = 200;

/// What to put where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct AtBoot {
    /// The unit's file name.
    name: String,
    /// The unit.
    unit: String,
    /// The line, if the disk is to be mounted.
    fstab: Option<String>,
}

impl AtBoot {
    /// A unit file that says in comments what else is to be done.
    pub(super) fn text(&self) -> String {
        let name = &self.name;
        let mut text = format!(
            "# Write this to /etc/systemd/system/{name}, then:\n#     systemctl enable --now {name}\n"
        );
        if let Some(line) = &self.fstab {
            text.push_str("# and put this line into /etc/fstab, then `systemctl daemon-reload`:\n");
            text.push_str(&format!("#     {line}\n"));
        }
        text.push('\n');
        text.push_str(self.unit.trim_end());
        text
    }
}

/// The unit and the line for a request that was checked.
///
/// # Errors
/// Why there are none.
pub(super) fn at_boot(request: &AttachRequest, program: &Path) -> Result<AtBoot, String> {
    let name = match &request.name {
        Some(name) => name.clone(),
        None => name_of(request)?,
    };
    let file = format!("outboard-{name}.service");
    let fstab = request.mount.as_deref().map(|dir| {
        let read_only = if request.read_only { "ro," } else { "" };
        format!(
            "/run/outboard-attach/by-name/{name} {} auto {read_only}_netdev,nofail,x-systemd.requires={file} 0 0",
            fstab_word(dir)
        )
    });
    let unit = unit(request, program, &name)?;
    Ok(AtBoot {
        name: file,
        unit,
        fstab,
    })
}

fn unit(request: &AttachRequest, program: &Path, name: &str) -> Result<String, String> {
    let wait = match request.wait.as_secs() {
        0 => WAIT_SECONDS,
        seconds => seconds,
    };
    let program = word(utf8(program)?);
    let mut attach = format!(
        "{program} attach {} --name {name} --via {} --connections {} --timeout {} --wait {wait}",
        word(&request.source.to_string()),
        match request.via {
            Via::Auto => "auto",
            Via::Kernel => "kernel",
            Via::Fuse => "fuse",
        },
        request.connections,
        request.timeout.as_secs(),
    );
    if request.read_only {
        attach.push_str(" --read-only");
    }
    if request.shared {
        attach.push_str(" --shared");
    }
    let mut lines = vec!["[Unit]".to_owned()];
    let what = request.source.to_string().replace('%', "%%");
    lines.push(format!("Description=Disk {what} (outboard)"));
    // A disk of this machine may be made of remote ones.
    if what.contains("://") {
        lines.push("Wants=network-online.target".to_owned());
        lines.push("After=network-online.target".to_owned());
    }
    let place = match request.source {
        Source::Remote(_) => String::new(),
        Source::Local(_) => working_directory()?,
    };
    let start = wait.saturating_add(MARGIN_SECONDS);
    lines.push(format!(
        "\
Before=remote-fs.target

[Service]
Type=forking
{place}ExecStart={attach}
ExecStop={program} detach /run/outboard-attach/by-name/{name}
TimeoutStartSec={start}
TimeoutStopSec={STOP_SECONDS}
# What is in use is not taken away from its users.
SendSIGKILL=no
OOMScoreAdjust=-900

[Install]
WantedBy=remote-fs.target"
    ));
    Ok(lines.join("\n"))
}

/// The line that lets an expression's paths mean at boot what they mean here.
fn working_directory() -> Result<String, String> {
    let here = std::env::current_dir();
    let here = here.map_err(|error| format!("cannot find the working directory: {error}"))?;
    let here = utf8(&here)?.replace('%', "%%");
    Ok(format!("WorkingDirectory={here}\n"))
}

/// A name from where it is mounted, or else from the disk.
fn name_of(request: &AttachRequest) -> Result<String, String> {
    let source = request.source.to_string();
    let text = match request.mount.as_deref() {
        Some(dir) => utf8(dir)?,
        None => {
            let path = source.split_once("://").map_or(&*source, |(_, rest)| rest);
            path.split('?').next().unwrap_or_default()
        }
    };
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = text.chars().map(plain).collect();
    let name = name.trim_matches('-');
    match name.len() {
        1..=64 => Ok(name.to_owned()),
        _ => Err(format!(
            "no short name can be made of {text}; give one with --name"
        )),
    }
}

fn utf8(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| {
        format!(
            "{}: a unit is written in UTF-8, this is not",
            path.display()
        )
    })
}

/// A word of a unit's command line (systemd.syntax(7), systemd.service(5), "Command lines").
fn word(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '%' | '$' => {
                out.push(c);
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A field of `/etc/fstab`: blanks and backslashes as octal numbers (fstab(5)).
fn fstab_word(path: &Path) -> String {
    let text = path.display().to_string();
    let escapes = [
        ("\\", "\\134"),
        (" ", "\\040"),
        ("\t", "\\011"),
        ("\n", "\\012"),
        ("#", "\\043"),
    ];
    escapes
        .iter()
        .fold(text, |text, (what, octal)| text.replace(what, octal))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::Duration;

    use testkit::requires::{self, Missing};

    use super::*;

    fn request() -> AttachRequest {
        AttachRequest {
            mount: Some(PathBuf::from("/mnt/my media")),
            ..AttachRequest::new(Source::Remote("nbd://nas.lan/media%20a$b".into()))
        }
    }

    fn of(request: &AttachRequest) -> AtBoot {
        at_boot(request, Path::new("/usr/bin/outboard")).unwrap()
    }

    fn value<'a>(boot: &'a AtBoot, key: &str) -> &'a str {
        let lines = boot.unit.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.next().unwrap()
    }

    #[test]
    fn the_unit_attaches_by_a_name_and_waits_for_network_and_server() {
        let boot = of(&request());
        assert_eq!(boot.name, "outboard-mnt-my-media.service");
        assert_eq!(
            value(&boot, "ExecStart"),
            "\"/usr/bin/outboard\" attach \"nbd://nas.lan/media%%20a$$b\" --name mnt-my-media --via auto \
             --connections 4 --timeout 300 --wait 300"
        );
        assert_eq!(
            value(&boot, "ExecStop"),
            "\"/usr/bin/outboard\" detach /run/outboard-attach/by-name/mnt-my-media"
        );
        assert_eq!(value(&boot, "After"), "network-online.target");
        assert_eq!(value(&boot, "TimeoutStartSec"), "360");
    }

    #[test]
    fn the_paths_of_an_expression_are_those_of_the_folder_where_it_was_written() {
        let source = Source::Local("overlay(golden.img, today.cow)".into());
        let boot = of(&AttachRequest {
            source,
            ..request()
        });
        let here = std::env::current_dir().unwrap();
        assert_eq!(value(&boot, "WorkingDirectory"), here.to_str().unwrap());
        assert!(!boot.unit.contains("network-online"), "{}", boot.unit);
        let source = Source::Local("overlay(nbd://nas.lan/golden, today.cow)".into());
        let boot = of(&AttachRequest {
            source,
            ..request()
        });
        assert_eq!(value(&boot, "After"), "network-online.target");
        assert!(!of(&request()).unit.contains("WorkingDirectory"));
    }

    #[test]
    fn the_line_mounts_after_the_unit_and_the_network() {
        let boot = of(&AttachRequest {
            read_only: true,
            ..request()
        });
        assert_eq!(
            boot.fstab.unwrap(),
            "/run/outboard-attach/by-name/mnt-my-media /mnt/my\\040media auto \
             ro,_netdev,nofail,x-systemd.requires=outboard-mnt-my-media.service 0 0"
        );
    }

    #[test]
    fn without_a_mount_there_is_no_line_and_the_name_is_the_disks() {
        let boot = of(&AttachRequest {
            mount: None,
            wait: Duration::from_secs(7),
            ..request()
        });
        assert_eq!(boot.fstab, None);
        assert_eq!(boot.name, "outboard-nas-lan-media-20a-b.service");
        assert!(value(&boot, "ExecStart").ends_with("--wait 7"));
    }

    #[test]
    fn what_is_printed_is_a_unit_file_whose_comments_say_the_rest() {
        let boot = of(&request());
        let text = boot.text();
        let (comments, unit): (Vec<&str>, Vec<&str>) = text
            .lines()
            .partition(|line| line.starts_with("# ") && !line.contains("in use"));
        assert!(comments[0].contains(&boot.name));
        assert!(
            comments.contains(&&*format!("#     {}", boot.fstab.unwrap())),
            "{text}"
        );
        assert_eq!(unit[1], "[Unit]");
    }

    #[test]
    fn systemd_takes_the_unit_and_makes_a_mount_of_the_line() {
        let generator = Path::new("/usr/lib/systemd/system-generators/systemd-fstab-generator");
        let has_generator = match generator.exists() {
            true => Ok(()),
            false => Err(Missing::new("systemd-fstab-generator", "install systemd")),
        };
        let needs = [requires::command("systemd-analyze"), has_generator];
        if !requires::all(&needs) {
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        // The program must be there, or systemd says so.
        let boot = at_boot(&request(), Path::new("/bin/true")).unwrap();
        let unit = temp.path().join(&boot.name);
        std::fs::write(&unit, boot.text()).unwrap();
        let fstab = temp.path().join("fstab");
        std::fs::write(&fstab, format!("{}\n", boot.fstab.unwrap())).unwrap();
        let generated = Command::new(generator)
            .args([temp.path(), temp.path(), temp.path()])
            .env("SYSTEMD_FSTAB", &fstab)
            .output()
            .unwrap();
        assert!(generated.status.success(), "{generated:?}");
        let mount = temp.path().join("mnt-my\\x20media.mount");
        let text = std::fs::read_to_string(&mount).unwrap();
        for part in [
            "Requires=outboard-mnt-my-media.service",
            "After=outboard-mnt-my-media.service",
            "What=/run/outboard-attach/by-name/mnt-my-media",
            "Where=/mnt/my media",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .args([&unit, &mount])
            .env("SYSTEMD_UNIT_PATH", format!("{}:", temp.path().display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success() && said.is_empty(), "{said}");
    }
}

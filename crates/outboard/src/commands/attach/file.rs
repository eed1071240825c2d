//! The configuration of one attachment: `attach --config FILE`, of which `outboard-attach@NAME.service` reads
//! `/etc/outboard/attach.d/NAME.toml`. Its keys are the options of `attach`, its values mean the same.
//!
//! # Invariants
//!
//! * A key that is not known is an error with its line.
//! * An attachment is called as its file is, so that `detach --name` of the unit finds it.
//! * An unreachable server is tried for some minutes, and for less than systemd lets the unit start.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::unit::WAIT_SECONDS;
use super::{Args, VIAS};
use crate::config;
use crate::failure::Failure;

/// `wait` at most: TimeoutStartSec= of outboard-attach@.service, less what a filesystem takes to be mounted.
const WAIT_SECONDS_MAX: u64 = 840;

/// The whole file. What is absent is as `attach` has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttachFile {
    disk: String,
    mount: Option<PathBuf>,
    via: Option<String>,
    connections: Option<usize>,
    #[serde(default)]
    read_only: bool,
    timeout: Option<u64>,
    wait: Option<u64>,
    #[serde(default)]
    shared: bool,
    name: Option<String>,
    cache: Option<PathBuf>,
    cache_size: Option<String>,
    cache_profile: Option<PathBuf>,
}

/// The arguments that a file has in place of a command line.
pub(super) fn args(path: &Path) -> Result<Args, Failure> {
    let file: AttachFile = config::read_as(path).map_err(|e| Failure::usage(e.to_string()))?;
    let name = name(path, file.name)?;
    let mut args = Args::of(file.disk);
    if let Some(via) = file.via {
        if !VIAS.contains(&&*via) {
            let (place, vias) = (path.display(), VIAS.join(", "));
            let why = format!("{place}: via is {via:?}; it is one of {vias}");
            return Err(Failure::usage(why));
        }
        args.via = via;
    }
    args.cache_size = match file.cache_size {
        Some(size) => Some(
            size.parse()
                .map_err(|e| Failure::usage(format!("{}: cache_size: {e}", path.display())))?,
        ),
        None => None,
    };
    args.connections = file.connections.unwrap_or(args.connections);
    args.timeout = file.timeout.unwrap_or(args.timeout);
    args.wait = file.wait.unwrap_or(WAIT_SECONDS);
    if args.wait > WAIT_SECONDS_MAX {
        let why = format!("{}: wait is {}", path.display(), args.wait);
        let next = format!(
            "outboard-attach@.service is stopped by systemd when it has not started for long: give {WAIT_SECONDS_MAX} or less"
        );
        return Err(Failure::usage(why).next(next));
    }
    Ok(Args {
        mount: file.mount,
        read_only: file.read_only,
        shared: file.shared,
        cache: file.cache,
        cache_profile: file.cache_profile,
        name: Some(name),
        ..args
    })
}

/// The name of the file without its ending; `name` in it can only be the same.
fn name(path: &Path, own: Option<String>) -> Result<String, Failure> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let place = path.display();
    let stem =
        stem.ok_or_else(|| Failure::usage(format!("{place}: the name of the file is not UTF-8")))?;
    match own {
        Some(own) if own != stem => Err(Failure::usage(format!("{place}: name is {own:?}"))
            .next(format!(
                "an attachment is called as its file is, here {stem}: rename the file, or remove the key"
            ))),
        _ => Ok(stem.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Args, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        args(&path)
    }

    #[test]
    fn the_example_that_is_installed_is_the_command_with_these_options() {
        let example = include_str!("../../../../../packaging/attach-example.toml");
        let args = read("media.toml", example).unwrap();
        assert_eq!(args.disk.as_deref(), Some("nbd://nas.lan/media"));
        assert_eq!(args.mount.as_deref(), Some(Path::new("/mnt/media")));
        assert_eq!((args.wait, &*args.via), (300, "auto"));
        assert_eq!(args.name.as_deref(), Some("media"), "that of the file");
        // What stands there as a comment is the default.
        let keys = example.lines().map(|line| line.trim_start_matches('#'));
        let keys: Vec<&str> = keys.filter(|line| line.contains(" = ")).collect();
        let args = read("media.toml", &keys.join("\n")).unwrap();
        assert_eq!(args.timeout, Args::of(String::new()).timeout);
        assert_eq!(args.connections, Args::of(String::new()).connections);
    }

    #[test]
    fn a_server_that_boots_later_is_tried_for_five_minutes_and_never_longer_than_the_unit_starts() {
        let args = read("a.toml", "disk = \"a.img\"\n").unwrap();
        assert_eq!(args.wait, 300);
        let args = read("a.toml", "disk = \"a.img\"\nwait = 0\n").unwrap();
        assert_eq!(args.wait, 0);
        let unit = include_str!("../../../../../packaging/outboard-attach@.service");
        let limit = unit
            .lines()
            .find_map(|line| line.strip_prefix("TimeoutStartSec="));
        let limit: u64 = limit.unwrap().parse().unwrap();
        assert!(WAIT_SECONDS_MAX + 60 <= limit);
        let line = read("a.toml", &format!("disk = \"a.img\"\nwait = {limit}\n"))
            .unwrap_err()
            .line();
        assert!(
            line.contains("wait is 900") && line.contains("840 or less"),
            "{line}"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |text: &str| read("a.toml", text).unwrap_err().line();
        let line = wrong("disk = \"a.img\"\nmuont = \"/mnt\"\n");
        assert!(
            line.contains("a.toml, line 2, column 1: unknown key `muont`"),
            "{line}"
        );
        let line = wrong("mount = \"/mnt\"\n");
        assert!(line.contains("missing key `disk`"), "{line}");
        let line = wrong("disk = \"a.img\"\nvia = \"usb\"\n");
        assert!(
            line.contains("via is \"usb\"; it is one of auto, kernel, fuse"),
            "{line}"
        );
    }

    #[test]
    fn a_name_by_which_the_stop_of_the_unit_would_not_find_it_is_refused() {
        let args = read("a.toml", "disk = \"a.img\"\nname = \"a\"\n").unwrap();
        assert_eq!(args.name.as_deref(), Some("a"));
        let line = read("a.toml", "disk = \"a.img\"\nname = \"b\"\n")
            .unwrap_err()
            .line();
        assert!(
            line.contains("name is \"b\"") && line.contains("here a"),
            "{line}"
        );
    }
}

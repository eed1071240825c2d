//! The configuration of one attachment: `attach --config FILE`, of which `outboard-attach@NAME.service` reads
//! `/etc/outboard/attach.d/NAME.toml`. Its keys are the options of `attach`, its values mean the same.
//!
//! # Invariants
//!
//! * A key that is not known is an error with its line.
//! * An attachment that has no name is called as the file is, so that `detach --name` of the unit finds it.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Args, VIAS};
use crate::config;
use crate::failure::Failure;

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
}

/// The arguments that a file has in place of a command line.
pub(super) fn args(path: &Path) -> Result<Args, Failure> {
    let file: AttachFile = config::read_as(path).map_err(|e| Failure::usage(e.to_string()))?;
    let name = match file.name {
        Some(name) => Some(name),
        None => path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .map(str::to_owned),
    };
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
    args.wait = file.wait.unwrap_or(args.wait);
    Ok(Args {
        mount: file.mount,
        read_only: file.read_only,
        shared: file.shared,
        cache: file.cache,
        name,
        ..args
    })
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
    fn a_name_of_its_own_counts() {
        let args = read("a.toml", "disk = \"a.img\"\nname = \"b\"\n").unwrap();
        assert_eq!(args.name.as_deref(), Some("b"));
    }
}

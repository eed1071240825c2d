//! What `--help` and the manual page of a command end with: command lines to begin with, and the disks that it takes.
//!
//! # Invariants
//!
//! * Every command line is one that the parser accepts (a test).
//! * The disks are those of the language's own list.

use clap::Command;

use crate::graph;

/// What a command's help ends with.
struct Examples {
    /// Its names: `array create`.
    command: &'static str,
    /// Lines for a shell; comments say what those below them do.
    lines: &'static str,
    /// Whether the language of disks is listed.
    takes_disks: bool,
}

const fn examples(command: &'static str, lines: &'static str) -> Examples {
    Examples {
        command,
        lines,
        takes_disks: false,
    }
}

/// The same, and the language of disks.
const fn with_disks(command: &'static str, lines: &'static str) -> Examples {
    Examples {
        command,
        lines,
        takes_disks: true,
    }
}

const EXAMPLES: &[Examples] = &[
    with_disks(
        "serve",
        "# An image, to programs of this machine
outboard serve media=media.img
# To other machines, with TLS
outboard serve media=media.img --listen 0.0.0.0 --tls /etc/outboard/tls
# An image that stays as it is, with an overlay for each client
outboard serve root=debian.img --overlay-per-client overlays
# Two disks as a mirror, with a page that shows it live
outboard serve 'data=array(a.img, b.img)' --http 127.0.0.1:9110
# What is found on the disks of a dead NAS, read-only
outboard serve --auto /dev/sdb /dev/sdc",
    ),
    examples(
        "netboot",
        "# Machines of the network boot from an image; its DHCP server stays as it is
outboard netboot /srv/boot --root golden.img --interface eth0
# On a network without a DHCP server
outboard netboot /srv/boot --root golden.img --interface eth1 --dhcp-range 10.0.0.9,10.0.0.99
# Raspberry Pis, from the two partitions of a card's image
outboard netboot /srv/boot --root 'partition(pi.img, 2)' --pi-boot boot --interface eth0",
    ),
    with_disks(
        "attach",
        "# A disk of another machine, mounted
outboard attach nbd://nas.lan/media --mount /mnt/media
# The same at every boot: a unit, and a line for /etc/fstab
outboard attach nbd://nas.lan/media --mount /mnt/media --print-unit
# With a cache on this machine
outboard attach nbd://nas.lan/media --mount /mnt/media --cache /var/cache/media --cache-size 8G
# An image of this machine, with a new filesystem
outboard attach media.img --mkfs ext4 --mount /mnt/media",
    ),
    with_disks(
        "copy",
        "# A disk into an image, compared afterwards
outboard copy /dev/sdb backup.img --verify
# An export into another one
outboard copy nbd://nas.lan/media nbd://box.lan/media
# A volume of a disk image
outboard copy 'volume(disk.img, name=vg/root)' root.img",
    ),
    with_disks(
        "inspect",
        "# Partitions, filesystems, arrays and volumes of an image
outboard inspect disk.img
# Of the disks of an array together
outboard inspect /dev/sdb /dev/sdc /dev/sdd
# Of an export
outboard inspect nbd://nas.lan/media",
    ),
    examples(
        "disk create",
        "# An image with a filesystem
outboard disk create media.img 20G --fs ext4
# With a partition table
outboard disk create card.img 8G --part 512M:efi --fs vfat --part rest:linux:root --fs ext4",
    ),
    examples(
        "array create",
        "# A mirror of two images
outboard array create a.img b.img --level 1 --assume-clean
# RAID 6 of four devices and a spare
outboard array create /dev/sdb /dev/sdc /dev/sdd /dev/sde --level 6 --spare /dev/sdf
# RAID 5 over three machines
outboard array create nbd://a.lan/d nbd://b.lan/d nbd://c.lan/d --level 5",
    ),
    examples(
        "volume create",
        "# A new group of one disk, and a volume in it
outboard volume create vg/root --disks disk.img --size 4G
# Another one in the space that is left
outboard volume create vg/home disk.img --extents 100%FREE",
    ),
    examples(
        "tls init",
        "outboard tls init /etc/outboard/tls --name nas.lan --client pi",
    ),
    examples(
        "lab run",
        "# Which of two directories is faster
outboard lab run quick /mnt/card --against /mnt/nas
# What would be done
outboard lab run quick /mnt/card --dry-run",
    ),
    examples(
        "doctor",
        "# What limits a directory that an export is mounted on
outboard doctor /mnt/media
# An export, with what the server's machine knows: `outboard agent` runs there
outboard doctor nbd://nas.lan/media --agent nas.lan --agent-token-file token",
    ),
];

/// Adds them to the commands that they belong to.
pub(super) fn add(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, examples| {
        let path: Vec<&str> = examples.command.split(' ').collect();
        add_to(command, &path, examples)
    })
}

fn add_to(command: Command, path: &[&str], examples: &Examples) -> Command {
    match path.split_first() {
        Some((name, below)) => {
            command.mut_subcommand(name, |command| add_to(command, below, examples))
        }
        None => command.after_help(text(examples)),
    }
}

fn text(examples: &Examples) -> String {
    let mut text = "Examples:".to_owned();
    for line in examples.lines.lines() {
        text.push_str("\n  ");
        text.push_str(line);
    }
    if examples.takes_disks {
        text.push_str("\n\nDisks (outboard-disks(7) says more):\n  PATH\n  nbd://HOST/EXPORT");
        for usage in graph::usages() {
            text.push_str("\n  ");
            text.push_str(usage);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// The words of a line, as a shell has them; quotes are single ones.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, part) in line.split('\'').enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    #[test]
    fn every_command_line_is_accepted() {
        for examples in EXAMPLES {
            let lines = examples.lines.lines();
            let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
            assert!(!lines.is_empty());
            for line in lines {
                let begin = format!("outboard {} ", examples.command);
                assert!(line.starts_with(&begin), "{line}");
                let parsed = super::super::Cli::command().try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
            }
        }
    }
}

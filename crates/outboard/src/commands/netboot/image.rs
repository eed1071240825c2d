//! The kernel and the initramfs of PCs: those that the golden image itself has in `/boot`, so that they always fit its modules.
//!
//! `debugfs` of e2fsprogs reads ext2, ext3 and ext4 without root and without a mount. It writes nothing without `-w`.
//!
//! What it does not do: other filesystems, partitions. For those the user gives both files.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::programs;

/// Where initramfs-tools, and dracut, have the initramfs of a kernel.
const INITRAMFS: [(&str, &str); 2] = [("initrd.img-", ""), ("initramfs-", ".img")];

/// Names in `/boot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BootPair {
    /// The kernel's version.
    pub(super) version: String,
    kernel: String,
    initramfs: String,
}

/// Finds the newest kernel of an image that has an initramfs, and writes both into `folder` under the names of `to`.
pub(super) fn extract(image: &Path, folder: &Path, to: [&str; 2]) -> Result<BootPair, Failure> {
    let shown = image.display();
    let next = "give both with --kernel and --initrd";
    let listed = debugfs(image, folder, "ls -p /boot")?;
    let Some(pair) = newest(&listed.output) else {
        let what = match listed.complaint.is_empty() {
            true => format!("{shown} has no kernel with an initramfs in /boot"),
            false => format!("debugfs cannot read {shown}: {}", listed.complaint),
        };
        return Err(Failure::new(what).next(next));
    };
    for (name, target) in [&pair.kernel, &pair.initramfs].into_iter().zip(to) {
        let dumped = debugfs(image, folder, &format!("dump /boot/{name} {target}"))?;
        let is_there = std::fs::metadata(folder.join(target)).is_ok_and(|file| file.len() > 0);
        if !is_there {
            let what = format!("debugfs cannot read /boot/{name} of {shown}");
            return Err(Failure::new(format!("{what}: {}", dumped.complaint)).next(next));
        }
    }
    Ok(pair)
}

#[derive(Debug)]
struct Answer {
    output: String,
    /// Standard error without the line with the version.
    complaint: String,
}

/// Its exit status reports nothing of the request.
fn debugfs(image: &Path, folder: &Path, request: &str) -> Result<Answer, Failure> {
    let Some(program) = programs::find("debugfs") else {
        let missing =
            Failure::new("debugfs, which reads the kernel of the image, is not installed");
        return Err(missing.next("apt install e2fsprogs, or give --kernel and --initrd"));
    };
    let mut command = Command::new(program);
    command.args(["-R", request]).arg(image).current_dir(folder);
    let ended = command.output();
    let ended = ended.map_err(|error| Failure::because("cannot run debugfs", &error))?;
    let complaint = String::from_utf8_lossy(&ended.stderr);
    let lines = complaint.lines().skip(1).collect::<Vec<_>>();
    Ok(Answer {
        output: String::from_utf8_lossy(&ended.stdout).into_owned(),
        complaint: lines.join(" "),
    })
}

/// `/INODE/MODE/USER/GROUP/NAME/SIZE/` a line: the newest kernel that has an initramfs; symbolic links are left out.
fn newest(listing: &str) -> Option<BootPair> {
    let files: Vec<&str> = listing
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split('/').collect();
            let is_file = fields.get(2)?.starts_with("10");
            fields.get(5).copied().filter(|_| is_file)
        })
        // debugfs reads a request as words.
        .filter(|name| !name.contains(|c: char| c.is_whitespace() || c == '"'))
        .collect();
    let pairs = files.iter().filter_map(|kernel| {
        let version = kernel.strip_prefix("vmlinuz-")?;
        let names = INITRAMFS.map(|(begin, end)| format!("{begin}{version}{end}"));
        let initramfs = names.into_iter().find(|name| files.contains(&&**name))?;
        Some(BootPair {
            version: version.to_owned(),
            kernel: (*kernel).to_owned(),
            initramfs,
        })
    });
    pairs.max_by(|a, b| compare(&a.version, &b.version))
}

/// Versions by their numbers: 6.10 is newer than 6.9.
fn compare(a: &str, b: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        let parts = text.split(|c: char| !c.is_ascii_digit());
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

/// Copies the files that the user gave.
pub(super) fn copy(from: [&PathBuf; 2], folder: &Path, to: [&str; 2]) -> Result<(), Failure> {
    for (from, to) in from.into_iter().zip(to) {
        let copied = std::fs::copy(from, folder.join(to));
        let what = || format!("cannot copy {} into {}", from.display(), folder.display());
        copied.map_err(|error| Failure::because(what(), &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_with_an_initramfs_is_taken() {
        let listing = "/12/040755/0/0/.//\n/2/040755/0/0/..//\n\
            /13/100644/0/0/vmlinuz-6.9.0-1-amd64/8000000/\n/14/100644/0/0/initrd.img-6.9.0-1-amd64/20000000/\n\
            /15/100644/0/0/vmlinuz-6.10.2-1-amd64/8000000/\n/16/100644/0/0/initrd.img-6.10.2-1-amd64/20000000/\n\
            /17/100644/0/0/vmlinuz-6.12.0-amd64/8000000/\n/18/120777/0/0/vmlinuz-7.0/22/\n\
            /19/100644/0/0/initrd.img-7.0/1/\n/20/100644/0/0/config-6.10.2-1-amd64/1/\n";
        let pair = newest(listing).unwrap();
        assert_eq!(pair.version, "6.10.2-1-amd64");
        assert_eq!(pair.initramfs, "initrd.img-6.10.2-1-amd64");
    }

    #[test]
    fn an_initramfs_of_dracut_is_one_too() {
        let listing = "/3/100755/0/0/vmlinuz-6.1/1/\n/4/100600/0/0/initramfs-6.1.img/1/\n";
        assert_eq!(newest(listing).unwrap().initramfs, "initramfs-6.1.img");
    }

    #[test]
    fn what_debugfs_would_read_as_words_is_left_out_and_nothing_panics() {
        let listing = "/3/100755/0/0/vmlinuz-6 1/1/\n/4/100600/0/0/initrd.img-6 1/1/\n/\n\n/3/10\n";
        assert_eq!(newest(listing), None);
        assert_eq!(compare("6.1", "6.1"), Ordering::Equal);
    }
}

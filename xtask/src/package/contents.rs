//! What is in each package, and where.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::binary::{Binaries, Binary};
use super::control::{About, Release, changelog, control};
use super::copyright;
use super::tree::{DATA, PROGRAM, Tree};
use crate::{manual, shell};

const DOCUMENTS: &str = "usr/share/doc";
/// The binary that goes into an initramfs.
pub(super) const INITRAMFS_BINARY: &str = "usr/lib/outboard/initramfs/outboard";
/// dpkg has initramfs-tools build the images again, once, after all packages.
const INITRAMFS_TRIGGERS: &[u8] = b"activate-noawait update-initramfs\n";
/// A version that a binary needs of glibc when its relocations are packed, and glibc's version that brings it. The lists
/// of symbols that dpkg-shlibdeps reads do not have it.
const PACKED_RELOCATIONS: &str = "GLIBC_ABI_DT_RELR";
const PACKED_RELOCATIONS_LIBC: &str = "2.36";

/// All packages.
pub(super) fn trees(release: &Release, binaries: &Binaries, work: &Path) -> Result<Vec<Tree>> {
    Ok(vec![
        main(release, &binaries.installed, work)?,
        symbols(release, binaries, work)?,
        initramfs(release, &binaries.initramfs, work)?,
    ])
}

fn main(release: &Release, binary: &Binary, work: &Path) -> Result<Tree> {
    let mut tree = Tree::new("outboard", release.architecture.name(), work)?;
    tree.file("usr/bin/outboard", &fs::read(&binary.stripped)?, PROGRAM)?;
    tree.configuration("packaging/outboard.toml", "etc/outboard/outboard.toml")?;
    tree.folder("etc/outboard/attach.d")?;
    let example = format!("{DOCUMENTS}/outboard/examples/attach.toml");
    tree.copy("packaging/attach-example.toml", &example, DATA)?;
    for unit in [
        "outboard.service",
        "outboard.socket",
        "outboard-attach@.service",
    ] {
        let to = format!("lib/systemd/system/{unit}");
        tree.copy(&format!("packaging/{unit}"), &to, DATA)?;
    }
    for about in [
        "prometheus/outboard.rules.yml",
        "prometheus/outboard.test.yml",
        "grafana/outboard.json",
    ] {
        let to = format!("usr/share/outboard/{about}");
        tree.copy(&format!("packaging/{about}"), &to, DATA)?;
    }
    for script in ["postinst", "prerm", "postrm"] {
        tree.script(&format!("packaging/debian/outboard.{script}"), script)?;
    }
    add_manual(&tree, binary, work)?;
    add_completions(&tree, binary)?;
    let rights = copyright::text(binary.target, binary.volumes)?;
    add_documents(&tree, release, &rights)?;
    for guide in files_of(&shell::root().join("docs/guide"))? {
        let name = guide.file_name().unwrap_or_default().to_string_lossy();
        let to = format!("{DOCUMENTS}/outboard/guide/{name}");
        tree.file(&to, &fs::read(&guide)?, DATA)?;
    }
    let libraries = libraries(binary, work)?;
    tree.describe(&control(
        release,
        &About {
            name: tree.name,
            architecture: release.architecture.name(),
            section: "net",
            depends: &format!("adduser, {libraries}"),
            more: "Recommends: fuse3\nSuggests: dnsmasq-base, fio, ipxe, outboard-initramfs\n",
            installed_kib: tree.installed_kib()?,
            description: "disks for small machines that live on another one\n \
                          Serves files, block devices, partitions, Linux software RAID, LVM volumes\n \
                          and overlays over NBD without the kernel's md and device mapper, attaches\n \
                          them as block devices on clients, and measures every way to a disk.",
        },
    ))?;
    Ok(tree)
}

fn symbols(release: &Release, binaries: &Binaries, work: &Path) -> Result<Tree> {
    let tree = Tree::new("outboard-dbgsym", release.architecture.name(), work)?;
    for binary in [&binaries.installed, &binaries.initramfs] {
        tree.file(&binary.symbols_at, &fs::read(&binary.symbols)?, DATA)?;
    }
    // Debug packages have no documents of their own.
    let documents = tree.folder(DOCUMENTS)?;
    std::os::unix::fs::symlink("outboard", documents.join(tree.name))?;
    tree.describe(&control(
        release,
        &About {
            name: tree.name,
            architecture: release.architecture.name(),
            section: "debug",
            depends: &format!("outboard (= {})", release.version),
            more: "Auto-Built-Package: debug-symbols\n",
            installed_kib: tree.installed_kib()?,
            description: "debug symbols for outboard\n \
                          Line tables of the binaries, for backtraces and profilers.",
        },
    ))?;
    Ok(tree)
}

fn initramfs(release: &Release, binary: &Binary, work: &Path) -> Result<Tree> {
    let tree = Tree::new("outboard-initramfs", release.architecture.name(), work)?;
    tree.file(INITRAMFS_BINARY, &fs::read(&binary.stripped)?, PROGRAM)?;
    for (from, to) in [("hook", "hooks"), ("local-top", "scripts/local-top")] {
        let to = format!("usr/share/initramfs-tools/{to}/outboard");
        tree.copy(&format!("packaging/initramfs-tools/{from}"), &to, PROGRAM)?;
    }
    for file in files_of(&shell::root().join("packaging/dracut/95outboard"))? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let to = format!("usr/lib/dracut/modules.d/95outboard/{name}");
        tree.file(&to, &fs::read(&file)?, PROGRAM)?;
    }
    tree.file("DEBIAN/triggers", INITRAMFS_TRIGGERS, DATA)?;
    let rights = copyright::text(binary.target, binary.volumes)?;
    let libraries = libraries(binary, work)?;
    add_documents(&tree, release, &rights)?;
    tree.describe(&control(
        release,
        &About {
            name: tree.name,
            architecture: release.architecture.name(),
            section: "net",
            depends: &format!(
                "initramfs-tools | dracut, outboard (>= {}), {libraries}",
                release.version
            ),
            more: "",
            installed_kib: tree.installed_kib()?,
            description: "root filesystem over NBD, attached by outboard in the initramfs\n \
                          Puts outboard into the initramfs, where it attaches the root filesystem\n \
                          that the kernel's command line names: a binary of its own, without volumes\n \
                          on object stores. It is described in\n \
                          /usr/share/doc/outboard/guide/initramfs.md.",
        },
    ))?;
    Ok(tree)
}

/// What Debian wants of every package.
fn add_documents(tree: &Tree, release: &Release, rights: &str) -> Result<()> {
    let folder = format!("{DOCUMENTS}/{}", tree.name);
    tree.file(&format!("{folder}/copyright"), rights.as_bytes(), DATA)?;
    tree.compressed(
        &format!("{folder}/changelog"),
        changelog(release).as_bytes(),
    )?;
    let news = fs::read(shell::root().join("CHANGELOG.md"))?;
    match tree.name {
        "outboard" => tree.compressed(&format!("{folder}/NEWS"), &news),
        _ => Ok(()),
    }
}

/// The manual pages.
pub(super) fn add_manual(tree: &Tree, binary: &Binary, work: &Path) -> Result<()> {
    for page in manual::pages(binary.command()?, work)? {
        let to = format!("usr/share/man/man{}/{}", page.section, page.file);
        tree.compressed(&to, page.text.as_bytes())?;
    }
    Ok(())
}

/// The completions, where each shell looks for those of packages.
pub(super) fn add_completions(tree: &Tree, binary: &Binary) -> Result<()> {
    for (shell, to) in [
        ("bash", "usr/share/bash-completion/completions/outboard"),
        ("zsh", "usr/share/zsh/vendor-completions/_outboard"),
        ("fish", "usr/share/fish/vendor_completions.d/outboard.fish"),
    ] {
        let script = shell::output(binary.command()?.args(["completions", shell]))?;
        tree.file(to, script.as_bytes(), DATA)?;
    }
    Ok(())
}

/// The packages whose libraries the binary links with, and since which version.
fn libraries(binary: &Binary, work: &Path) -> Result<String> {
    let folder = work.join("shlibdeps");
    fs::create_dir_all(folder.join("debian"))?;
    fs::write(
        folder.join("debian/control"),
        "Source: outboard\n\nPackage: outboard\nArchitecture: any\n",
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    let architecture = binary.target.architecture;
    command
        .arg("-O")
        .args(binary.target.libraries()?)
        .arg(&binary.stripped)
        .env("DEB_HOST_ARCH", architecture.name())
        .current_dir(&folder);
    let printed = shell::output(&mut command)?;
    let (_, libraries) = printed
        .trim()
        .split_once("shlibs:Depends=")
        .with_context(|| format!("dpkg-shlibdeps printed {printed}"))?;
    let libraries = as_installed(libraries, architecture.name());
    let mut readelf = binary.target.tool("readelf");
    let versions = shell::output(
        readelf
            .args(["--version-info", "--wide"])
            .arg(&binary.stripped),
    )?;
    match versions.contains(PACKED_RELOCATIONS) {
        true => raise_libc(&libraries, PACKED_RELOCATIONS_LIBC),
        false => Ok(libraries),
    }
}

/// The list of packages with a libc6 of at least this version.
fn raise_libc(libraries: &str, version: &str) -> Result<String> {
    let mut has_libc = false;
    let packages: Vec<String> = libraries
        .split(", ")
        .map(|package| {
            let Some(rest) = package.strip_prefix("libc6 ") else {
                return package.to_owned();
            };
            has_libc = true;
            let known = rest.trim_start_matches("(>= ").trim_end_matches(')');
            match numbers(known) < numbers(version) {
                true => format!("libc6 (>= {version})"),
                false => package.to_owned(),
            }
        })
        .collect();
    ensure!(has_libc, "the binary needs no libc6: {libraries}");
    Ok(packages.join(", "))
}

/// The numbers of a version such as 2.36, to be compared.
fn numbers(version: &str) -> Vec<u32> {
    let numbers = version.split(['.', '-', '+']);
    numbers.map_while(|number| number.parse().ok()).collect()
}

/// The packages of a machine of that architecture, of those that a cross toolchain has in their place.
fn as_installed(libraries: &str, architecture: &str) -> String {
    libraries
        .replace(&format!(":{architecture}"), "")
        .replace(&format!("-{architecture}-cross"), "")
}

/// The files in a folder, sorted.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{as_installed, raise_libc};

    #[test]
    fn packed_relocations_need_a_glibc_that_knows_them() {
        let raised = |libraries| raise_libc(libraries, "2.36").unwrap();
        assert_eq!(
            raised("libc6 (>= 2.4), libgcc-s1 (>= 4.2)"),
            "libc6 (>= 2.36), libgcc-s1 (>= 4.2)"
        );
        assert_eq!(raised("libc6 (>= 2.38)"), "libc6 (>= 2.38)");
        assert!(raise_libc("libgcc-s1 (>= 4.2)", "2.36").is_err());
    }

    #[test]
    fn a_foreign_package_depends_on_what_that_machine_has() {
        let cross = "libc6:arm64 (>= 2.36), libgcc-s1-arm64-cross (>= 4.2)";
        let there = "libc6 (>= 2.36), libgcc-s1 (>= 4.2)";
        assert_eq!(as_installed(cross, "arm64"), there);
        assert_eq!(as_installed(there, "amd64"), there);
    }
}

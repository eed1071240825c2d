//! What a Debian package says of itself: control files and the changelog. Pure but for [`Release::of_this_tree`].
//!
//! The fields are those of the Debian Policy Manual, chapters 4.4 and 5.

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result};

use super::target::Architecture;
use crate::shell;

const MAINTAINER: &str = "The outboard authors <outboard@localhost>";

/// By default git abbreviates by the number of objects that a clone has.
const ABBREVIATION: &str = "--abbrev=12";

/// A version and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) version: String,
    /// Abbreviated, with `-dirty` where the tree differs from it.
    pub(super) commit: String,
    /// When it was committed, seconds since 1970.
    pub(super) seconds: u64,
    /// The same as RFC 5322 has it.
    pub(super) date: String,
    /// What it is built for.
    pub(super) architecture: Architecture,
}

/// As `outboard --version` prints it.
impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.commit)
    }
}

impl Release {
    /// From git and cargo.
    pub(super) fn of_this_tree(architecture: Architecture) -> Result<Self> {
        let git = |args: &[&str]| -> Result<String> {
            let mut command = Command::new("git");
            let printed = shell::output(command.args(args).current_dir(shell::root()))?;
            Ok(printed.trim().to_owned())
        };
        let manifest = std::fs::read_to_string(shell::root().join("Cargo.toml"))?;
        let manifest: toml::Table = manifest.parse().context("in Cargo.toml")?;
        let version = manifest
            .get("workspace")
            .and_then(|workspace| workspace.get("package")?.get("version")?.as_str())
            .context("Cargo.toml has no version")?;
        Ok(Self {
            version: version.to_owned(),
            commit: git(&[
                "describe",
                "--always",
                ABBREVIATION,
                "--dirty",
                "--exclude=*",
            ])?,
            seconds: git(&["log", "-1", "--format=%ct"])?.parse()?,
            date: git(&["log", "-1", "--format=%cD"])?,
            architecture,
        })
    }
}

/// The fields of a package that differ from those of the others.
#[derive(Debug)]
pub(super) struct About<'a> {
    pub(super) name: &'a str,
    pub(super) architecture: &'a str,
    pub(super) section: &'a str,
    pub(super) depends: &'a str,
    /// Further fields, a line each.
    pub(super) more: &'a str,
    pub(super) installed_kib: u64,
    /// One line, then paragraphs as Debian folds them.
    pub(super) description: &'a str,
}

/// The text of DEBIAN/control.
pub(super) fn control(release: &Release, about: &About<'_>) -> String {
    let About {
        name,
        architecture,
        section,
        depends,
        more,
        installed_kib,
        description,
    } = about;
    let version = &release.version;
    format!(
        "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {installed_kib}\nDepends: {depends}\n{more}Section: {section}\nPriority: optional\n\
         Description: {description}\n"
    )
}

/// The changelog as dpkg reads it; what changed is in the other one, for people.
pub(super) fn changelog(release: &Release) -> String {
    let Release {
        version,
        commit,
        date,
        ..
    } = release;
    format!(
        "outboard ({version}) unstable; urgency=medium\n\n  * Built from commit {commit}; NEWS has the changes.\n\n \
         -- {MAINTAINER}  {date}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> Release {
        Release {
            version: "0.1.0".to_owned(),
            commit: "abc1234".to_owned(),
            seconds: 1,
            date: "Thu, 1 Jan 1970 00:00:01 +0000".to_owned(),
            architecture: Architecture::Amd64,
        }
    }

    #[test]
    fn a_control_file_has_a_field_a_line_and_ends_with_the_description() {
        let about = About {
            name: "outboard",
            architecture: "amd64",
            section: "net",
            depends: "libc6",
            more: "Recommends: fuse3\n",
            installed_kib: 7,
            description: "disks\n More of it.",
        };
        let text = control(&release(), &about);
        assert!(
            text.ends_with("Description: disks\n More of it.\n"),
            "{text}"
        );
        let fields: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            fields,
            [
                "Package",
                "Version",
                "Architecture",
                "Maintainer",
                "Installed-Size",
                "Depends",
                "Recommends",
                "Section",
                "Priority",
                "Description"
            ]
        );
    }

    #[test]
    fn the_changelog_has_the_form_that_dpkg_parses() {
        let text = changelog(&release());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "outboard (0.1.0) unstable; urgency=medium");
        assert!(lines[2].starts_with("  * "), "{text}");
        assert!(
            lines[4].starts_with(" -- ") && lines[4].ends_with("  Thu, 1 Jan 1970 00:00:01 +0000"),
            "{text}"
        );
    }
}

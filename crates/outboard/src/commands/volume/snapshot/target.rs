//! [`ServedTarget`]: a group of which a server on this machine has volumes open, and changes of it there.
//!
//! # Invariants
//!
//! * The change is planned here, from the server's metadata, and the server makes it only if these are still the same.
//! * The backup is written here before the server gets the request.

use std::path::{Path, PathBuf};

use nodes::volume::edit::GroupEdit;
use nodes::volume::format::VolumeGroup;
use nodes::volume::open::SnapshotChange;

use super::super::backup;
use super::super::change::{self, ChangeOptions, ChangeReport, FailedDisk, parsed, stamp};
use super::super::open_group::refused;
use super::super::report::{DiskNames, GroupReport};
use crate::completion;
use crate::control::client::{self, ControlError};
use crate::control::{ControlAnswer, ControlRequest, ServedGroup, SnapshotRequest, place};
use crate::failure::Failure;
use crate::output::Format;

/// Which server.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::commands::volume) struct ServerArgs {
    /// Without disks: which server has the group, if several do: its name or process, or its control socket
    #[arg(long, value_name = "NAME", conflicts_with = "disks", add = completion::servers())]
    pub(super) server: Option<String>,
}

/// A group of a server.
#[derive(Debug)]
pub(in crate::commands::volume) struct ServedTarget {
    socket: PathBuf,
    group: VolumeGroup,
    /// What the server calls its disks.
    names: DiskNames,
}

/// Finds the server that has the group `name` open.
pub(in crate::commands::volume) fn find(
    name: &str,
    args: &ServerArgs,
) -> Result<ServedTarget, Failure> {
    let mut found: Vec<(PathBuf, ServedGroup)> = Vec::new();
    let mut others = Vec::new();
    for (socket, groups) in servers(args)? {
        for group in groups {
            if group.name == name || group.id == name {
                found.push((socket.clone(), group));
            } else {
                others.push(group.name);
            }
        }
    }
    match found.as_slice() {
        [(socket, group)] => Ok(ServedTarget {
            socket: socket.clone(),
            group: parsed(&group.text)?,
            names: group.disks.clone().into_iter().collect(),
        }),
        [] => {
            let what = format!("no server here has volumes of the group {name} open for writing");
            Err(Failure::new(what).next(match others.as_slice() {
                [] => "name all disks of the group behind it".to_owned(),
                others => format!(
                    "name all disks of the group behind it; groups that are served: {}",
                    others.join(", ")
                ),
            }))
        }
        several => {
            let names = several.iter().map(|(socket, _)| place::name(socket));
            let names: Vec<String> = names.collect();
            let what = format!("the group {name} is served by {}", names.join(" and by "));
            Err(Failure::usage(what).next("say which: --server NAME"))
        }
    }
}

/// The servers that are queried, with their groups.
fn servers(args: &ServerArgs) -> Result<Vec<(PathBuf, Vec<ServedGroup>)>, Failure> {
    if let Some(named) = &args.server {
        let socket = place::named(named)?;
        let groups = groups_of(&socket).map_err(Failure::new)?;
        return Ok(vec![(socket, groups)]);
    }
    let mut servers = Vec::new();
    for socket in place::all() {
        match groups_of(&socket) {
            Ok(groups) => servers.push((socket, groups)),
            // Left behind by a process that was killed.
            Err(ControlError::NotListening(_)) => place::sweep(&socket),
            Err(error) => tracing::warn!("{error}"),
        }
    }
    Ok(servers)
}

fn groups_of(socket: &Path) -> Result<Vec<ServedGroup>, ControlError> {
    match client::request(socket, ControlRequest::VolumeGroups)? {
        ControlAnswer::VolumeGroups(groups) => Ok(groups),
        _ => Err(ControlError::Answer {
            path: socket.to_owned(),
            why: "another question".to_owned(),
        }),
    }
}

impl ServedTarget {
    /// What the server calls the disks.
    pub(in crate::commands::volume) const fn names(&self) -> &DiskNames {
        &self.names
    }

    /// The group, as the server has it.
    pub(in crate::commands::volume) const fn group(&self) -> &VolumeGroup {
        &self.group
    }

    /// Sends a request to the server.
    pub(in crate::commands::volume) fn request(
        &self,
        request: ControlRequest,
    ) -> Result<ControlAnswer, Failure> {
        client::request(&self.socket, request).map_err(Failure::new)
    }

    /// The text of the group as the server has it now.
    pub(in crate::commands::volume) fn reread(&self) -> Result<String, Failure> {
        let groups = groups_of(&self.socket).map_err(Failure::new)?;
        let found = groups.into_iter().find(|group| group.id == self.group.id);
        let found = found.ok_or_else(|| {
            Failure::new(format!(
                "the server has no volumes of {} open any more",
                self.group.name
            ))
        })?;
        Ok(found.text)
    }

    /// Begins a change.
    pub(in crate::commands::volume) fn edit(&self) -> Result<GroupEdit, Failure> {
        GroupEdit::open(self.group.clone()).map_err(|error| refused(error, &self.names))
    }

    /// The names in the metadata of disks as the server calls them.
    pub(in crate::commands::volume) fn member_names(
        &self,
        disks: &[String],
    ) -> Result<Vec<String>, Failure> {
        let name = |disk: &String| {
            let mut names = self.names.iter();
            let found = names.find(|(_, name)| *name == disk);
            let found = found.map(|(member, _)| member.clone());
            found.ok_or_else(|| {
                let what = format!(
                    "{disk} is none of the disks of the group {}",
                    self.group.name
                );
                let mut names: Vec<&str> = self.names.values().map(String::as_str).collect();
                names.sort_unstable();
                Failure::usage(what).next(format!("the server has {}", names.join(", ")))
            })
        };
        disks.iter().map(name).collect()
    }

    /// Has the server make a change, of which `edit` is the result here, and prints what became of it.
    pub(super) fn change(
        &self,
        change: &SnapshotChange,
        edit: &GroupEdit,
        summary: String,
        options: &ChangeOptions,
        format: Format,
    ) -> Result<(), Failure> {
        let mut report = ChangeReport {
            summary,
            dry_run: options.dry_run,
            before: Some(GroupReport::of(&self.group, &self.names)),
            after: GroupReport::of(edit.group(), &self.names),
            backup: None,
            failed: Vec::new(),
        };
        if !options.dry_run {
            let text = self.group.text.print();
            let directory = options.backup.as_deref();
            report.backup = Some(backup::write(directory, &self.group, &text)?);
            self.request_change(change, &mut report)?;
        }
        change::print(&report, format)
    }

    fn request_change(
        &self,
        change: &SnapshotChange,
        report: &mut ChangeReport,
    ) -> Result<(), Failure> {
        let stamp = stamp();
        let request = SnapshotRequest {
            group: self.group.id.clone(),
            sequence: self.group.sequence,
            step: change.into(),
            seconds: stamp.seconds,
            host: stamp.host,
            description: stamp.description,
        };
        let ControlAnswer::Snapshot(changed) = self.request(ControlRequest::Snapshot(request))?
        else {
            return Err(crate::commands::reload::unexpected_answer());
        };
        report.after = GroupReport::of(&parsed(&changed.text)?, &self.names);
        let failed = changed.failed.into_iter();
        let failed = failed.map(|(disk, error)| FailedDisk { disk, error });
        report.failed = failed.collect();
        Ok(())
    }
}

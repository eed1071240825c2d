//! Carrying out a change of a group: backup, metadata, and what is printed.

use std::path::PathBuf;

use nodes::volume::edit::GroupEdit;
use nodes::volume::format::VolumeGroup;
use nodes::volume::update::{CommitReport, commit};
use serde::Serialize;

use super::backup;
use super::open_group::{OpenGroup, refused};
use super::report::{DiskNames, GroupReport};
use crate::arrays;
use crate::commands::inspect::on_the_engine;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::{self, Format};
pub(super) use crate::stamp::{host, stamp};

/// Options of every change.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ChangeOptions {
    /// Print the segments before and after; write nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Where the metadata before the change are kept [default: outboard/volumes below XDG_DATA_HOME]
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) backup: Option<PathBuf>,
}

/// What became of a change.
#[derive(Debug, Serialize)]
pub(super) struct ChangeReport {
    /// One line for people.
    #[serde(skip)]
    pub(super) summary: String,
    pub(super) dry_run: bool,
    /// The group before; `None` if it is new.
    pub(super) before: Option<GroupReport>,
    pub(super) after: GroupReport,
    /// The metadata before.
    pub(super) backup: Option<PathBuf>,
    /// Disks with metadata that are outdated now.
    pub(super) failed: Vec<FailedDisk>,
}

/// A disk that did not take a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FailedDisk {
    pub(super) disk: String,
    pub(super) error: String,
}

/// Opens disks, runs a change on them, and prints what became of it.
pub(super) fn run(
    options: &ChangeOptions,
    format: Format,
    change: impl AsyncFnOnce(&mut Builder) -> Result<ChangeReport, Failure>,
) -> Result<(), Failure> {
    let report = on_the_engine(async || {
        let mut builder = Builder::new(options.dry_run);
        let changed = Box::pin(change(&mut builder)).await;
        // Disks may be arrays, which the metadata were written to.
        arrays::finish(changed, builder.arrays()).await
    })?;
    print(&report, format)
}

/// Prints what became of a change. One that some disks did not take is a failure.
pub(super) fn print(report: &ChangeReport, format: Format) -> Result<(), Failure> {
    format.print(report, || report.text())?;
    report.refuse_failed()
}

impl OpenGroup {
    /// Commits an edit of this group, unless it is only to be shown.
    pub(super) async fn commit(
        &self,
        edit: GroupEdit,
        summary: String,
        options: &ChangeOptions,
    ) -> Result<ChangeReport, Failure> {
        let nothing = async || Ok(());
        self.commit_after(edit, summary, options, nothing).await
    }

    /// The same, with something that is written between the backup and the metadata.
    pub(super) async fn commit_after(
        &self,
        edit: GroupEdit,
        summary: String,
        options: &ChangeOptions,
        write: impl AsyncFnOnce() -> Result<(), Failure>,
    ) -> Result<ChangeReport, Failure> {
        let names = self.names();
        let mut report = self.report(&edit, summary, options);
        let after = edit.group().clone();
        let text = edit
            .finish(&stamp())
            .map_err(|error| refused(error, &names))?;
        report.after = GroupReport::of(&parsed(&text)?, &names);
        if options.dry_run {
            return Ok(report);
        }
        if let Some(before) = self.text() {
            let directory = options.backup.as_deref();
            report.backup = Some(backup::write(directory, &before.group, &before.text)?);
        }
        write().await?;
        let written = commit(&self.areas(&after), &text).await;
        let written = written.map_err(|error| Failure::from_error(&error))?;
        report.failed = failed_disks(written);
        Ok(report)
    }

    /// A report of an edit of this group that was not committed.
    pub(super) fn report(
        &self,
        edit: &GroupEdit,
        summary: String,
        options: &ChangeOptions,
    ) -> ChangeReport {
        let names = self.names();
        ChangeReport {
            summary,
            dry_run: options.dry_run,
            before: Some(GroupReport::of(self.group(), &names)),
            after: GroupReport::of(edit.group(), &names),
            backup: None,
            failed: Vec::new(),
        }
    }
}

/// Disks that failed, as they are reported.
pub(super) fn failed_disks(report: CommitReport) -> Vec<FailedDisk> {
    let failed = report.failed.into_iter();
    let failed = failed.map(|failed| FailedDisk {
        disk: failed.name,
        error: failed.source.to_string(),
    });
    failed.collect()
}

/// A text that was made here.
pub(super) fn parsed(text: &str) -> Result<VolumeGroup, Failure> {
    VolumeGroup::of(text).map_err(|error| Failure::from_error(&error))
}

impl ChangeReport {
    fn text(&self) -> String {
        if !self.dry_run {
            let mut lines = vec![self.summary.clone()];
            let backup = self.backup.as_ref();
            lines.extend(backup.map(|path| format!("the metadata before: {}", path.display())));
            return lines.join("\n");
        }
        let before = self.before.as_ref();
        let before = before.map_or_else(|| "  no group".to_owned(), GroupReport::table);
        let after = self.after.table();
        format!("before:\n{before}\nafter:\n{after}\nnothing was written: --dry-run")
    }

    /// A change that some disks did not take is done, and a failure.
    pub(super) fn refuse_failed(&self) -> Result<(), Failure> {
        let Some(first) = self.failed.first() else {
            return Ok(());
        };
        for failed in &self.failed[1..] {
            output::remark(&format!("{}: {}", failed.disk, failed.error));
        }
        let what = format!(
            "the change is done, but {} did not take it: {}",
            first.disk, first.error
        );
        let next =
            "its metadata are outdated: outboard volume repair writes them when the disk is well";
        Err(Failure::new(what).next(next))
    }
}

/// Names of disks for a group that is being made: in the order of its members.
pub(super) fn names_in_order(group: &VolumeGroup, disks: &[String]) -> DiskNames {
    let members = group.members.iter().map(|member| member.name.clone());
    members.zip(disks.iter().cloned()).collect()
}

//! The disks of a server: opened one by one, each knowing which files the others write.

use block::Node;

use crate::config::ExportPlan;
use crate::graph::builder::{BuildError, Builder, Written};

/// An export's disk and the files it writes.
#[derive(Debug)]
pub(super) struct Opened {
    /// The export's name.
    pub(super) name: String,
    /// Until the server takes it: nothing else may keep a disk open.
    disk: Option<Node>,
    written: Vec<Written>,
}

impl Opened {
    /// Hands the disk over; `None` if that was done before.
    pub(super) fn take(&mut self) -> Option<Node> {
        self.disk.take()
    }
}

/// Disks being opened.
#[derive(Debug, Default)]
pub(super) struct Opening {
    written: Vec<Written>,
    opened: Vec<Opened>,
}

impl Opening {
    /// Beside the disks of the exports that are `open`, but for those that are `leaving`: their
    /// locks say whether they are in the way.
    pub(super) fn beside(open: &[Opened], leaving: &[String]) -> Self {
        let staying = open.iter().filter(|open| !leaving.contains(&open.name));
        Self {
            written: staying.flat_map(|open| open.written.clone()).collect(),
            opened: Vec::new(),
        }
    }

    /// Opens one more.
    pub(super) async fn open(&mut self, export: &ExportPlan) -> Result<(), BuildError> {
        let known = self.written.len();
        let mut builder = Builder::new(export.read_only).beside(self.written.clone());
        let disk = Box::pin(builder.build(&export.disk)).await?;
        self.written = builder.written();
        self.opened.push(Opened {
            name: export.name.clone(),
            disk: Some(disk),
            written: self.written[known..].to_vec(),
        });
        Ok(())
    }

    /// The disks that were opened, in that order.
    pub(super) fn done(self) -> Vec<Opened> {
        self.opened
    }
}

//! `outboard inspect --graph`: the disks that an expression makes, as a tree, and where a byte is kept.
//!
//! Everything is opened read-only. Whether a disk is reported as writable follows from the expression, and from
//! partition tables, which are read-only if damaged.

use std::str::FromStr;

use indicatif::HumanBytes;
use serde::Serialize;

use super::visible;
use crate::failure::Failure;
use crate::graph::builder::{Builder, BuiltDisk, label};
use crate::graph::{ByteSize, NamedDisk, SECTOR};
use crate::output::{Format, columns};

/// A byte of a disk: `1M`, or `2048s` in sectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offset(u64);

impl FromStr for Offset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sectors = text.strip_suffix('s').and_then(|n| n.parse::<u64>().ok());
        if let Some(sectors) = sectors {
            let bytes = sectors.checked_mul(SECTOR);
            return bytes.map(Self).ok_or_else(|| "too large".to_owned());
        }
        let ByteSize(bytes) = text.parse().map_err(|e: crate::graph::SizeError| {
            format!("{e}; sectors of 512 bytes are written with an s, like 2048s")
        })?;
        Ok(Self(bytes))
    }
}

/// A disk and those below it.
#[derive(Debug, Serialize)]
struct Tree {
    node: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    about: String,
    /// Bytes; a file that only its node understands has none of its own.
    size: Option<u64>,
    block_size: Option<u32>,
    read_only: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Self>,
}

/// Where a byte is in one disk on its way down.
#[derive(Debug, Serialize)]
struct ByteLocation {
    node: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    about: String,
    offset: u64,
}

/// The output of the command.
#[derive(Debug, Serialize)]
struct GraphReport {
    disk: String,
    graph: Tree,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<ByteLocation>>,
}

/// Opens the disk and prints its tree.
pub(super) async fn print(
    named: &NamedDisk,
    offset: Option<Offset>,
    format: Format,
) -> Result<(), Failure> {
    let built = Builder::new(true).with_every_byte().tree(named).await?;
    let graph = Tree::of(&built);
    let size = graph.size.unwrap_or(0);
    if let Some(Offset(offset)) = offset.filter(|offset| offset.0 >= size) {
        let what = format!("byte {offset} is behind the end of the disk");
        return Err(
            Failure::usage(what).next(format!("its last one is {}", size.saturating_sub(1)))
        );
    }
    let path = offset.map(|Offset(offset)| {
        let way = built.locate(offset).into_iter();
        let places = way.map(|step| ByteLocation {
            node: step.built.name,
            about: visible(&step.built.about),
            offset: step.offset,
        });
        places.collect()
    });
    let report = GraphReport {
        disk: named.text.clone(),
        graph,
        path,
    };
    format.print(&report, || report.text())
}

impl Tree {
    fn of(built: &BuiltDisk) -> Self {
        let geometry = built.node.as_ref().map(|node| node.geometry());
        Self {
            node: built.name,
            about: visible(&built.about),
            size: geometry.map(|geometry| geometry.size),
            block_size: geometry.map(|geometry| geometry.block_size),
            read_only: built.read_only,
            children: built.children.iter().map(Self::of).collect(),
        }
    }

    /// A row for this disk and each one below it.
    fn rows(&self, stem: &str, rows: &mut Vec<[String; 4]>) {
        let dash = || "-".to_owned();
        let size = |size: u64| HumanBytes(size).to_string();
        rows.push([
            format!("{stem}{}", label(self.node, &self.about)),
            self.size.map_or_else(dash, size),
            self.block_size.map_or_else(dash, |size| size.to_string()),
            if self.read_only {
                "read"
            } else {
                "read, write"
            }
            .to_owned(),
        ]);
        // What hangs below a branch is drawn below its line.
        let below = stem.replace("├─", "│ ").replace("└─", "  ");
        for (number, child) in self.children.iter().enumerate() {
            let last = number + 1 == self.children.len();
            let branch = if last { "└─" } else { "├─" };
            child.rows(&format!("{below}{branch}"), rows);
        }
    }
}

impl GraphReport {
    fn text(&self) -> String {
        let mut rows = vec![["NODE", "SIZE", "BLOCK", "ACCESS"].map(str::to_owned)];
        self.graph.rows("", &mut rows);
        let mut text = columns(&rows);
        if let Some(path) = &self.path {
            let mut rows = vec![["NODE", "BYTE", "SECTOR"].map(str::to_owned)];
            rows.extend(path.iter().map(ByteLocation::row));
            text.push_str("\n\n");
            text.push_str(&columns(&rows));
        }
        text
    }
}

impl ByteLocation {
    fn row(&self) -> [String; 3] {
        let (sector, rest) = (self.offset / SECTOR, self.offset % SECTOR);
        let sector = match rest {
            0 => sector.to_string(),
            rest => format!("{sector} + {rest} bytes"),
        };
        let label = label(self.node, &self.about);
        [label, self.offset.to_string(), sector]
    }
}

//! [`Report`]: what was found out about a disk, for people and for programs.

use indicatif::HumanBytes;
use serde::Serialize;

use super::content::DiskContent;
use super::map::Map;
use super::qemu_contexts::QemuContexts;
use super::visible;

/// What kind of disk it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DiskKind {
    /// An export of a server.
    Export,
    /// A regular file.
    File,
    /// A block device.
    Device,
    /// RAM.
    Memory,
    /// Nothing.
    Null,
    /// Made of another disk.
    Composed,
}

/// Block sizes, bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct BlockSizes {
    pub(super) minimum: u32,
    pub(super) preferred: u32,
    /// Longest payload of a request, where there is such a bound.
    pub(super) maximum: Option<u32>,
}

/// How a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Replies {
    /// A header and the data.
    Simple,
    /// In chunks: holes are not sent, errors have a text.
    Structured,
    /// The same, and lengths have 64 bits.
    Extended,
}

/// What a server says of an export.
#[derive(Debug, Serialize)]
pub(super) struct Export {
    /// The one of several servers that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) protocol: &'static str,
    pub(super) tls: bool,
    pub(super) replies: Replies,
    pub(super) read_only: bool,
    pub(super) flags: Vec<&'static str>,
    pub(super) contexts: Vec<String>,
    /// What is in those of QEMU's server.
    #[serde(flatten)]
    pub(super) qemu: QemuContexts,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) disk: String,
    pub(super) kind: DiskKind,
    pub(super) size: u64,
    pub(super) block_size: BlockSizes,
    pub(super) rotational: bool,
    /// Bytes that a file takes on its filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allocated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) export: Option<Export>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) map: Option<Map>,
    /// What is on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<DiskContent>,
}

/// Most names of metadata contexts in a line.
const CONTEXTS_SHOWN_MAX: usize = 32;
/// The metadata context of allocation.
const BASE_ALLOCATION: &str = "base:allocation";

impl Report {
    /// Whether the disk knows what is data in it.
    pub(super) fn has_known_map(&self) -> bool {
        match self.kind {
            DiskKind::File | DiskKind::Memory | DiskKind::Null => true,
            DiskKind::Device | DiskKind::Composed => false,
            DiskKind::Export => self.export.as_ref().is_some_and(|export| {
                let mut contexts = export.contexts.iter();
                contexts.any(|context| context == BASE_ALLOCATION)
            }),
        }
    }

    /// Lines of names and values.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![visible(&self.disk)];
        let mut add = |name: &str, value: String| lines.push(format!("  {name:<12} {value}"));
        let kind = match self.kind {
            DiskKind::Export => "export of a server",
            DiskKind::File => "file",
            DiskKind::Device => "block device",
            DiskKind::Memory => "RAM",
            DiskKind::Null => "nothing: discards writes, reads zeroes",
            DiskKind::Composed => "made of another disk",
        };
        add("kind", kind.to_owned());
        add(
            "size",
            format!("{} ({} bytes)", HumanBytes(self.size), self.size),
        );
        if let Some(allocated) = self.allocated {
            let space = HumanBytes(allocated);
            add(
                "takes",
                format!("{space} ({allocated} bytes) of its filesystem"),
            );
        }
        add("block size", self.block_size.text());
        add("rotational", yes_or_no(self.rotational).to_owned());
        if let Some(export) = &self.export {
            for (name, value) in export.lines() {
                add(name, value);
            }
        }
        lines.join("\n")
    }
}

impl BlockSizes {
    fn text(self) -> String {
        let maximum = self.maximum.map_or_else(String::new, |maximum| {
            format!(", {} at most", HumanBytes(maximum.into()))
        });
        format!(
            "{} at least, {} preferred{maximum}",
            self.minimum, self.preferred
        )
    }
}

impl Export {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let list = |items: &[&str]| {
            if items.is_empty() {
                "none".to_owned()
            } else {
                visible(&items.join(" "))
            }
        };
        let contexts = self.contexts.iter().map(String::as_str);
        let contexts: Vec<&str> = contexts.take(CONTEXTS_SHOWN_MAX).collect();
        let more = match self.contexts.len().saturating_sub(CONTEXTS_SHOWN_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let tls = if self.tls { "TLS" } else { "no TLS" };
        let replies = match self.replies {
            Replies::Simple => "simple replies",
            Replies::Structured => "structured replies",
            Replies::Extended => "extended headers",
        };
        let mut lines = vec![("export", format!("`{}`", visible(&self.name)))];
        lines.extend(
            self.server
                .as_ref()
                .map(|server| ("server", visible(server))),
        );
        if !self.description.is_empty() {
            lines.push(("description", visible(&self.description)));
        }
        lines.extend([
            ("read-only", yes_or_no(self.read_only).to_owned()),
            ("protocol", format!("{}, {replies}, {tls}", self.protocol)),
            ("flags", list(&self.flags)),
            ("contexts", list(&contexts) + &more),
        ]);
        lines.extend(self.qemu.lines());
        lines
    }
}

const fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

//! [`DiskOutline`]: a disk and the disks that it is made of, for drawing. Pure.
//!
//! # Invariants
//!
//! * It has the words of the text, and the structure of the resolved [`Disk`]: what is a disk and what is a size is
//!   decided in `resolve` alone.

use serde::Serialize;

use super::disk::{Disk, NamedDisk};
use super::parse::parse_named;
use super::syntax::{Argument, Expression};

/// What a member of an array is called that is known to be missing.
const MISSING: &str = "missing";

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DiskOutline {
    /// `array`, `partition`…; `file` and `nbd` for paths and URIs, `missing` for a member that is.
    pub(crate) kind: String,
    /// The path, the URI, or the options as they are written.
    pub(crate) text: String,
    /// The disks that it is made of, in the order of the text.
    pub(crate) children: Vec<Self>,
}

impl DiskOutline {
    /// The outline of `disk`; that of a text which is no expression is one `disk` of that text.
    pub(crate) fn of(disk: &NamedDisk) -> Self {
        match parse_named(&disk.text) {
            Ok(named) => outline(&named.disk, &disk.disk),
            Err(_) => Self::leaf("disk", &disk.text),
        }
    }

    fn leaf(kind: &str, text: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            text: text.to_owned(),
            children: Vec::new(),
        }
    }
}

fn outline(expression: &Expression, disk: &Disk) -> DiskOutline {
    let call = match expression {
        Expression::Word(word) => {
            let kind = match disk {
                Disk::Remote { .. } => "nbd",
                Disk::Bucket(_) => "bucket",
                Disk::Rbd(_) => "rbd",
                _ => "file",
            };
            return DiskOutline::leaf(kind, &word.text);
        }
        Expression::Call(call) => call,
    };
    let mut below = disk.children().iter();
    let mut children = Vec::new();
    let mut options = Vec::new();
    for Argument { key, value } in &call.arguments {
        if let Some(key) = key {
            options.push(format!("{}={value}", key.text));
            continue;
        }
        let is_missing = matches!(value, Expression::Word(word) if word.text == MISSING);
        match below.as_slice().first() {
            _ if is_missing && matches!(disk, Disk::Array(_)) => {
                children.push(DiskOutline::leaf(MISSING, ""));
            }
            Some(child) => {
                children.push(outline(value, child));
                below.next();
            }
            None => options.push(value.to_string()),
        }
    }
    DiskOutline {
        kind: call.name.text.clone(),
        text: options.join(", "),
        children,
    }
}

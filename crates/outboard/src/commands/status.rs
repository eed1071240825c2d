//! `outboard status`: what is attached here, and how it is.

use attach::AttachmentStatus;

use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::{Format, columns};

/// Prints it.
pub(crate) fn run(format: Format) -> Result<(), Failure> {
    let all = attach::status().map_err(Failure::new)?;
    format.print(&all, || {
        if all.is_empty() {
            return "nothing is attached".to_owned();
        }
        let head = ["DEVICE", "MOUNTED ON", "SIZE", "VIA", "DISK", "STATE"].map(str::to_owned);
        let rows: Vec<_> = std::iter::once(head).chain(all.iter().map(row)).collect();
        columns(&rows)
    })
}

fn row(attachment: &AttachmentStatus) -> [String; 6] {
    let none = || "-".to_owned();
    let device = attachment.device.as_ref();
    let mount = attachment.mount.as_ref();
    let mut state = attachment.health.to_string();
    if attachment.read_only {
        state.push_str(", read-only");
    }
    [
        device.map_or_else(none, |path| path.display().to_string()),
        mount.map_or_else(none, |place| place.dir.display().to_string()),
        ByteSize(attachment.size).to_string(),
        attachment.via.to_string(),
        attachment.source.clone(),
        state,
    ]
}

//! Whether disks can be members: what is wrong with them, or with two of them together.

use block::{BlockDevice, Node, Range, resolve};

use super::NewMember;
use crate::array::ArrayError;

/// Refuses disks that cannot be written, and the same one twice.
pub(super) fn disks(
    parts: &[NewMember],
    spares: &[NewMember],
    journal: Option<&NewMember>,
) -> Result<(), ArrayError> {
    let all = || parts.iter().chain(spares).chain(journal);
    if journal.is_some_and(|journal| journal.disk.is_none()) {
        let what = "the disk of the journal is not there";
        return Err(ArrayError::refused(what, "leave the journal out"));
    }
    if let Some(spare) = spares.iter().find(|spare| spare.disk.is_none()) {
        let what = format!("{} is a spare and is not there", spare.name);
        return Err(ArrayError::refused(what, "leave it out"));
    }
    let here = all().filter_map(|member| Some((member.name.as_str(), member.disk.as_ref()?)));
    let here: Vec<(&str, &Node)> = here.collect();
    for (index, (name, disk)) in here.iter().enumerate() {
        if disk.geometry().read_only {
            let what = format!("{name} cannot be written");
            return Err(ArrayError::refused(what, "open it for writing"));
        }
        let mut before = here[..index].iter();
        if let Some((other, _)) = before.find(|(_, other)| is_same(disk, other)) {
            let what = match other == name {
                true => format!("{name} is given twice"),
                false => format!("{other} and {name} have bytes in common"),
            };
            let next = "each member is a disk of its own";
            return Err(ArrayError::refused(what, next));
        }
    }
    Ok(())
}

/// Whether two disks have bytes in common, as far as that can be seen.
fn is_same(one: &Node, other: &Node) -> bool {
    let (one, here) = resolve(&**one, whole(one));
    let (other, there) = resolve(&**other, whole(other));
    let address = |disk: &dyn BlockDevice| std::ptr::from_ref(disk).cast::<()>();
    std::ptr::eq(address(one), address(other)) && here.overlaps(&there)
}

fn whole(disk: &Node) -> Range {
    Range::new(0, disk.geometry().size)
}

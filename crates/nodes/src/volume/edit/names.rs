//! Which names LVM takes for volumes and groups. Pure.

use super::EditError;

/// Bytes of a name, at most; also of the device-mapper name that group and volume have together.
const NAME_MAX: usize = 127;
/// What names of volumes do not begin with.
const RESERVED_PREFIXES: [&str; 2] = ["pvmove", "snapshot"];
/// What names of volumes do not contain: LVM names parts of volumes so.
const RESERVED: [&str; 17] = [
    "_cdata", "_cmeta", "_corig", "_cpool", "_cvol", "_wcorig", "_mimage", "_mlog", "_rimage",
    "_rmeta", "_tdata", "_tmeta", "_vdata", "_imeta", "_iorig", "_pmspare", "_vorigin",
];

/// Refuses what LVM takes for no name of a group.
///
/// # Errors
/// [`EditError::Name`]
pub fn check_group_name(name: &str) -> Result<(), EditError> {
    check_characters("group", name)
}

/// Refuses what LVM takes for no name of a volume of `group`.
///
/// # Errors
/// [`EditError::Name`]
pub fn check_volume_name(group: &str, name: &str) -> Result<(), EditError> {
    check_characters("volume", name)?;
    if let Some(prefix) = RESERVED_PREFIXES
        .into_iter()
        .find(|prefix| name.starts_with(prefix))
    {
        return refuse(
            "volume",
            name,
            format!("LVM reserves names that begin with {prefix}"),
        );
    }
    if let Some(part) = RESERVED.into_iter().find(|part| name.contains(part)) {
        return refuse("volume", name, format!("LVM reserves names with {part}"));
    }
    check_length(group, name)
}

/// Refuses what is too long as the name of a hidden part of a volume of `group`.
///
/// # Errors
/// [`EditError::Name`]
pub(super) fn check_part_name(group: &str, name: &str) -> Result<(), EditError> {
    check_characters("volume", name)?;
    check_length(group, name)
}

fn check_length(group: &str, name: &str) -> Result<(), EditError> {
    // Device-mapper's name has each hyphen twice.
    let doubled = |name: &str| name.len() + name.matches('-').count();
    let full = doubled(group) + 1 + doubled(name);
    if full > NAME_MAX {
        let why = format!("with the group's it would be {full} bytes, {NAME_MAX} are possible");
        return refuse("volume", name, why);
    }
    Ok(())
}

fn check_characters(what: &'static str, name: &str) -> Result<(), EditError> {
    let why = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.starts_with('-') {
        "it begins with a hyphen".to_owned()
    } else if matches!(name, "." | "..") {
        "it is a directory".to_owned()
    } else if let Some(c) = name
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && !"._-+".contains(*c))
    {
        format!(
            "`{}` is in it; letters, digits and . _ - + are possible",
            c.escape_default()
        )
    } else if name.len() > NAME_MAX {
        format!("it is longer than {NAME_MAX} bytes")
    } else {
        return Ok(());
    };
    refuse(what, name, why)
}

fn refuse(what: &'static str, name: &str, why: String) -> Result<(), EditError> {
    let name = name.to_owned();
    Err(EditError::Name { name, what, why })
}

//! The plans that come with the program.

use super::Plan;
use crate::LabError;

const PLANS: [(&str, &str); 22] = [
    ("quick", include_str!("quick.toml")),
    ("raspi-nbd", include_str!("plans/raspi-nbd.toml")),
    ("layers", include_str!("plans/layers.toml")),
    ("filesystems", include_str!("plans/filesystems.toml")),
    ("partitions", include_str!("plans/partitions.toml")),
    ("disks", include_str!("plans/disks.toml")),
    ("programs", include_str!("plans/programs.toml")),
    ("dm-linear", include_str!("plans/dm-linear.toml")),
    ("thermal", include_str!("plans/thermal.toml")),
    ("network", include_str!("plans/network.toml")),
    ("remote-fs", include_str!("plans/remote-fs.toml")),
    ("block-size", include_str!("plans/block-size.toml")),
    ("queue-depth", include_str!("plans/queue-depth.toml")),
    ("connections", include_str!("plans/connections.toml")),
    ("mirror", include_str!("plans/mirror.toml")),
    ("uneven-mirror", include_str!("plans/uneven-mirror.toml")),
    ("raid-levels", include_str!("plans/raid-levels.toml")),
    ("raid-smb", include_str!("plans/raid-smb.toml")),
    ("wire-speeds", include_str!("plans/wire-speeds.toml")),
    ("clients", include_str!("plans/clients.toml")),
    ("replay", include_str!("plans/replay.toml")),
    ("object-stores", include_str!("plans/object-stores.toml")),
];

/// The plan of this name.
///
/// # Errors
/// [`LabError::UnknownPlan`] with the names there are.
pub fn builtin(name: &str) -> Result<Plan, LabError> {
    source(name).and_then(Plan::parse)
}

/// Its text, with what it says to people.
///
/// # Errors
/// [`LabError::UnknownPlan`] with the names there are.
pub fn source(name: &str) -> Result<&'static str, LabError> {
    match PLANS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Ok(text),
        None => Err(LabError::UnknownPlan {
            name: name.to_owned(),
            known: PLANS.map(|(known, _)| known).join(", "),
        }),
    }
}

/// Every plan that comes with the program.
///
/// # Errors
/// [`LabError::BadPlan`] if one of them is wrong, which a test rules out.
pub fn list() -> Result<Vec<Plan>, LabError> {
    PLANS.iter().map(|(_, text)| Plan::parse(text)).collect()
}

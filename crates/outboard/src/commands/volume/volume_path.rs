//! [`VolumePath`]: `GROUP/VOLUME` as LVM's users write it. Pure.

use std::fmt;
use std::str::FromStr;

/// A volume by the names of its group and its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumePath {
    pub(super) group: String,
    pub(super) volume: String,
}

impl FromStr for VolumePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("/dev/").unwrap_or(text);
        match path.split_once('/') {
            Some((group, volume)) if !group.is_empty() && is_name(volume) => Ok(Self {
                group: group.to_owned(),
                volume: volume.to_owned(),
            }),
            _ => Err("write GROUP/VOLUME, like vg0/media".to_owned()),
        }
    }
}

impl fmt::Display for VolumePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.volume)
    }
}

/// A group, or one of its volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupPath {
    pub(super) group: String,
    /// `None`: the group itself.
    pub(super) volume: Option<String>,
}

impl FromStr for GroupPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("/dev/").unwrap_or(text);
        if is_name(path) {
            return Ok(Self {
                group: path.to_owned(),
                volume: None,
            });
        }
        let VolumePath { group, volume } = text
            .parse()
            .map_err(|_| "write GROUP or GROUP/VOLUME, like vg0/media".to_owned())?;
        Ok(Self {
            group,
            volume: Some(volume),
        })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

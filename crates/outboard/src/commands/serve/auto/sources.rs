//! [`Sources`]: how what was found would be written as a disk expression: arrays of disks, volumes of arrays, and so on. Pure.

use crate::commands::inspect::{Array, ContentSource, Group, SourceBase};
use crate::graph::{ExpressionError, NamedDisk, as_argument};

/// Arrays and groups within each other.
const DEPTH_MAX: usize = 8;

/// What expressions are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) disks: &'a [NamedDisk],
    pub(super) arrays: &'a [Array],
    pub(super) groups: &'a [Group],
    /// Start arrays with members missing.
    pub(super) run: bool,
}

/// An expression; `None`: it cannot be written.
type Written = Result<Option<String>, ExpressionError>;

impl Sources<'_> {
    /// The array, as it would be written. `depth`: arrays and groups around it.
    pub(super) fn array(&self, array: &Array, depth: usize) -> Written {
        let members = array.members.iter().map(|member| member.source.as_ref());
        let Some(mut arguments) = self.arguments(members, depth)? else {
            return Ok(None);
        };
        if self.run {
            arguments.push("run=true".to_owned());
        }
        Ok(Some(format!("array({})", arguments.join(", "))))
    }

    /// The volume `name` of the group, as it would be written. `depth`: arrays and groups around it.
    pub(super) fn volume(&self, group: &Group, name: &str, depth: usize) -> Written {
        let usable = group.physical_volumes.iter().filter(|part| part.is_usable);
        let disks = usable.map(|part| part.source.as_ref());
        let Some(arguments) = self.arguments(disks, depth)? else {
            return Ok(None);
        };
        let same = self.groups.iter().filter(|other| other.name == group.name);
        let called = match same.count() {
            1 => &group.name,
            _ => &group.uuid,
        };
        let name = format!("{called}/{name}").replace('\'', "''");
        let arguments = arguments.join(", ");
        Ok(Some(format!("volume({arguments}, name='{name}')")))
    }

    /// Places as arguments; `None`: one cannot be written.
    fn arguments<'b>(
        &self,
        places: impl Iterator<Item = Option<&'b ContentSource>>,
        depth: usize,
    ) -> Result<Option<Vec<String>>, ExpressionError> {
        let mut arguments = Vec::new();
        for place in places {
            let Some(place) = place.filter(|_| depth < DEPTH_MAX) else {
                return Ok(None);
            };
            let Some(argument) = self.argument(place, depth)? else {
                return Ok(None);
            };
            arguments.push(argument);
        }
        Ok((!arguments.is_empty()).then_some(arguments))
    }

    /// A place, as an argument of what it is a part of.
    fn argument(&self, source: &ContentSource, depth: usize) -> Written {
        let whole = match &source.base {
            SourceBase::Disk(disk) => Some(as_argument(&self.disks[*disk].text)?),
            SourceBase::Array(uuid) => {
                let mut arrays = self.arrays.iter();
                match arrays.find(|array| array.uuid == *uuid) {
                    Some(array) => self.array(array, depth + 1)?,
                    None => None,
                }
            }
            SourceBase::Volume { group, name } => {
                let mut groups = self.groups.iter();
                match groups.find(|found| found.uuid == *group) {
                    Some(group) => self.volume(group, name, depth + 1)?,
                    None => None,
                }
            }
        };
        let partition = |disk: String, number: &u32| format!("partition({disk}, {number})");
        Ok(whole.map(|whole| source.partitions.iter().fold(whole, partition)))
    }
}

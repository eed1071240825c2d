//! `error`: every request fails. Pure.

use std::sync::Arc;

use super::{DmTarget, LineLength};
use crate::dm::SECTOR;
use crate::dm::error::TableError;
use crate::dm::table::{DeviceUse, TableLine};
use crate::dm::words::Words;
use crate::{ErrorDisk, Segment};

#[derive(Debug)]
struct ErrorTarget;

pub(super) fn parse(_: &mut Words<'_>, _: &LineLength) -> Result<Box<dyn DmTarget>, TableError> {
    Ok(Box::new(ErrorTarget))
}

impl DmTarget for ErrorTarget {
    fn uses(&self, _: u64) -> Vec<DeviceUse<'_>> {
        Vec::new()
    }

    fn build(&self, line: &TableLine, _: Vec<Segment>) -> Result<Segment, TableError> {
        Ok(Segment::whole(Arc::new(ErrorDisk::new(line.len * SECTOR))))
    }
}

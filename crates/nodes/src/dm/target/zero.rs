//! `zero`: reads return zeroes, writes are discarded. Pure.

use std::sync::Arc;

use super::{LineLength, Target};
use crate::dm::SECTOR;
use crate::dm::error::TableError;
use crate::dm::table::{DeviceUse, Line};
use crate::dm::words::Words;
use crate::{Segment, Zero};

#[derive(Debug)]
struct ZeroTarget;

pub(super) fn parse(_: &mut Words<'_>, _: &LineLength) -> Result<Box<dyn Target>, TableError> {
    Ok(Box::new(ZeroTarget))
}

impl Target for ZeroTarget {
    fn uses(&self, _: u64) -> Vec<DeviceUse<'_>> {
        Vec::new()
    }

    fn build(&self, line: &Line, _: Vec<Segment>) -> Result<Segment, TableError> {
        Ok(Segment::whole(Arc::new(Zero::new(line.len * SECTOR))))
    }
}

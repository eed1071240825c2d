//! [`OwnDisks`]: what the lab's drivers have this program do with disk expressions.

use attach::{AttachError, AttachRequest, Attachment};
use lab::checks::alignment::DiskSegment;
use lab::host::safety::ExportContent;
use lab::plan::Target;
use lab::runner::{BuildContext, DiskFacts, ThrottleBounds};
use lab::units::{Bytes, Rate};
use lab_drivers::build::{DiskAccess, WriteRules};

use super::write_rules::OwnWriteRules;
use crate::commands::{attach as attachments, inspect};
use crate::graph::resolve;
use crate::graph::segments::{BLOCK, segments};
use crate::graph::throttle_bounds::byte_rates;

/// The disks of this program.
#[derive(Debug)]
pub(super) struct OwnDisks;

impl DiskAccess for OwnDisks {
    fn write_rules<'a>(
        &self,
        target: &Target,
        context: &BuildContext<'a>,
    ) -> Box<dyn WriteRules + 'a> {
        Box::new(OwnWriteRules::of(target, context))
    }

    fn attach_request(&self, disk: &str) -> Result<AttachRequest, String> {
        attachments::plain(disk).map_err(|failure| failure.line())
    }

    fn attach(&self, request: &AttachRequest) -> Result<Attachment, AttachError> {
        attachments::attach(request, 0)
    }

    fn facts(&self, disk: &str) -> DiskFacts {
        let Ok(named) = resolve(disk) else {
            return DiskFacts::default();
        };
        let segments = segments(&named.disk).into_iter();
        let segments = segments.map(|segment| DiskSegment {
            name: format!("the segment on {}", segment.path.display()),
            start: Bytes(segment.start),
            len: Bytes(segment.len),
            on_lower: Bytes(0),
            physical: Bytes(BLOCK),
        });
        let (rates, rate) = (byte_rates(&named.disk), |rate| Rate(rate as f64));
        DiskFacts {
            segments: segments.collect(),
            throttle: ThrottleBounds {
                any: rates.any.map(rate),
                read: rates.read.map(rate),
                write: rates.write.map(rate),
            },
        }
    }

    fn export_content(&self, uri: &str) -> ExportContent {
        inspect::signature_of(uri)
    }
}

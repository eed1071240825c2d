//! [`OwnDisks`]: what the lab's drivers have this program do with disk expressions.

use attach::{AttachError, AttachRequest, Attachment};
use lab::plan::Target;
use lab::runner::BuildContext;
use lab_drivers::build::{DiskAccess, WriteRules};

use super::write_rules::OwnWriteRules;
use crate::commands::attach as attachments;

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
}

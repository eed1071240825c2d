//! [`RowOutcome`]: how a row was changed, and [`Logging`]: what became of what a log was to get before. Plain data.

use block::IoError;

use super::journal::JournalTicket;
use super::ppl_log::LogTicket;

/// How a row was changed.
pub(super) struct RowOutcome {
    pub(super) result: Result<(), IoError>,
    /// Something was not answered in time, and may land later.
    pub(super) is_late: bool,
}

/// What keeps what was logged of a row until that is on members.
#[expect(dead_code, reason = "tickets are only held")]
pub(super) enum RowTicket {
    PartialParity(LogTicket),
    Journal(JournalTicket),
}

/// What became of what a log was to get.
pub(super) enum Logging {
    /// It is durable, until the ticket is dropped; or there is nothing to log.
    Done(Option<RowTicket>),
    /// Members have changed.
    PlanAgain,
    Failed(IoError),
}

impl RowOutcome {
    pub(super) const fn done() -> Self {
        Self {
            result: Ok(()),
            is_late: false,
        }
    }

    pub(super) const fn refused(error: IoError) -> Self {
        Self {
            result: Err(error),
            is_late: false,
        }
    }
}

//! [`RequestContext`]: what is kept of a request until its reply.

use nbd_proto::{ReplyTo, Request};

use crate::server::stats::{Op, StartedRequest};

/// A request, as its answer and the figures need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestContext {
    pub(super) to: ReplyTo,
    pub(super) op: Op,
    /// Bytes it is about.
    pub(super) len: u64,
    /// How the figures know it, once it is not answered in the step that took it in.
    pub(super) started: Option<StartedRequest>,
}

impl RequestContext {
    pub(super) fn new(request: &Request, len: u64) -> Self {
        Self {
            to: ReplyTo {
                cookie: request.cookie,
                offset: request.offset,
            },
            op: request.command.into(),
            len,
            started: None,
        }
    }
}

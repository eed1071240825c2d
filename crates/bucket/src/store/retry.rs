//! [`retry`]: a request is made again until it succeeds, cannot succeed, or too much time has passed.
//!
//! # Invariants
//!
//! * Only requests that may be made twice come here: reads, deletes, and writes of the same bytes under a name of their own.
//! * A conflict of a create is retried ([`ConflictFilter`](super::conflict_filter::ConflictFilter)): it was not carried out.
//! * An outage stalls a volume and does not fail it, up to the limit of the policy.

use std::time::Duration;

use engine::clock;
use object_store::Error;

/// The first pause between two tries, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a request is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    /// No try begins later.
    pub(crate) limit: Duration,
    /// Whether refused credentials are retried: those of an open volume may be renewed.
    pub(crate) retries_refusals: bool,
}

impl RetryPolicy {
    /// For commands and opens: a user waits.
    pub(crate) const OPEN: Self = Self {
        limit: Duration::from_secs(20),
        retries_refusals: false,
    };
}

/// Why a request failed.
pub(crate) trait RequestError: std::fmt::Display {
    /// Whether it may succeed if it is made again.
    fn should_retry(&self, policy: RetryPolicy) -> bool;
}

impl RequestError for Error {
    fn should_retry(&self, policy: RetryPolicy) -> bool {
        match self {
            Self::PermissionDenied { .. } | Self::Unauthenticated { .. } => policy.retries_refusals,
            Self::NotFound { .. }
            | Self::InvalidPath { .. }
            | Self::NotSupported { .. }
            | Self::NotImplemented { .. }
            | Self::AlreadyExists { .. }
            | Self::Precondition { .. }
            | Self::NotModified { .. }
            | Self::UnknownConfigurationKey { .. } => false,
            _ => true,
        }
    }
}

/// Of a read of the index that is not made by an open one, which retries by itself.
impl RequestError for slatedb::Error {
    fn should_retry(&self, _: RetryPolicy) -> bool {
        self.kind() == slatedb::ErrorKind::Unavailable
    }
}

/// Makes a request until it succeeds or `policy` ends it.
///
/// # Errors
/// That of the last try.
pub(crate) async fn retry<T, E, F>(
    policy: RetryPolicy,
    what: &str,
    request: impl Fn() -> F,
) -> Result<T, E>
where
    E: RequestError,
    F: Future<Output = Result<T, E>>,
{
    let begin = clock::now();
    let mut pause = PAUSE_MIN;
    let mut has_failed = false;
    loop {
        let error = match request().await {
            Ok(value) => {
                if has_failed {
                    tracing::info!("{what}: the store answers again");
                }
                return Ok(value);
            }
            Err(error) => error,
        };
        let elapsed = clock::now().saturating_duration_since(begin);
        if !error.should_retry(policy) || elapsed + pause > policy.limit {
            return Err(error);
        }
        if !has_failed {
            tracing::warn!("{what}: {error}: retrying");
        }
        has_failed = true;
        clock::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

//! [`probe`]: whether a store creates an object only if it is not there, and whether its clock is this machine's.
//!
//! SlateDB's fence, and the versions of a header, need the first: a store that ignores the condition would let two servers write. The log
//! of the index needs the second: its times never go back, also from one writer to the next. Both are found before another writer is
//! fenced.

use std::time::{Duration, SystemTime};

use engine::clock;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use super::connect::StoreAccess;
use super::retry::{RetryPolicy, retry};
use crate::error::BucketError;
use crate::format::VolumeId;

/// How far the clock of this machine may be from the store's.
const SKEW_MAX: Duration = Duration::from_secs(30);

/// Creates an object of a random name twice, and compares its time.
///
/// # Errors
/// The second request succeeds too, or the store refuses the condition; the clocks differ.
pub(crate) async fn probe(access: &StoreAccess) -> Result<(), BucketError> {
    let path = Path::from(format!("{}/{}", access.names.probes(), VolumeId::random()));
    let create = || async {
        let options = PutOptions::from(PutMode::Create);
        let payload = PutPayload::from_static(b"outboard probes conditional PUT");
        access.store.put_opts(&path, payload, options).await
    };
    let refused = |why: String| BucketError::ConditionalPut {
        uri: access.uri.clone(),
        why,
    };
    let failed = |error: Error| match error {
        Error::NotImplemented { .. } | Error::NotSupported { .. } => refused(error.to_string()),
        error => BucketError::store(&access.uri, "create an object", error),
    };
    let begin = clock::wall();
    match retry(RetryPolicy::OPEN, &access.uri, create).await {
        // It is there if an earlier try was carried out and not answered.
        Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
        Err(error) => return Err(failed(error)),
    }
    let second = retry(RetryPolicy::OPEN, &access.uri, create).await;
    let head = || async { access.store.head(&path).await };
    let head = retry(RetryPolicy::OPEN, &access.uri, head).await;
    let delete = || async { access.store.delete(&path).await };
    let deleted = retry(RetryPolicy::OPEN, &access.uri, delete).await;
    if let Err(error) = deleted {
        tracing::debug!("{}: the probe {path} is left: {error}", access.uri);
    }
    match second {
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
            let head =
                head.map_err(|error| BucketError::store(&access.uri, "read an object", error));
            check_clock(
                access,
                skew(head?.last_modified.into(), begin, clock::wall()),
            )
        }
        Ok(_) => Err(refused("it overwrote an object that was there".to_owned())),
        Err(error) => Err(failed(error)),
    }
}

/// How far `store` is from the time between `begin` and `end`, in which the store set it: requests are retried for many seconds, and
/// the first try may have made the object.
fn skew(store: SystemTime, begin: SystemTime, end: SystemTime) -> Duration {
    let before = begin.duration_since(store);
    before
        .or_else(|_| store.duration_since(end))
        .unwrap_or_default()
}

fn check_clock(access: &StoreAccess, skew: Duration) -> Result<(), BucketError> {
    if skew <= SKEW_MAX {
        return Ok(());
    }
    Err(BucketError::Clock {
        uri: access.uri.clone(),
        seconds: skew.as_secs(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that answers late is not one with another clock: the requests of a probe are retried for up to 20 s each.
    #[test]
    fn what_a_late_answer_takes_is_no_skew() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (store, expected) in [(1000, 0), (1060, 0), (1030, 0), (900, 100), (1100, 40)] {
            let found = skew(at(store), at(1000), at(1060));
            assert_eq!(found, Duration::from_secs(expected), "{store}");
        }
    }
}

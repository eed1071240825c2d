//! [`join_all`] of futures of any kind, for what is rare or waits for flushes: each is boxed, so that one copy of the code is
//! compiled for each result, and not one for each future (`docs/adr/0021-size-of-the-binary.md`). Reads and writes of
//! clients are joined by `futures_util` itself.

use std::future::Future;

use futures_util::future::{self, FutureExt};

/// The results of all futures, in their order.
pub(crate) async fn join_all<'a, T: Send>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'a>,
) -> Vec<T> {
    let boxed: Vec<_> = futures.into_iter().map(FutureExt::boxed).collect();
    future::join_all(boxed).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runtime::timed;

    #[test]
    fn results_are_in_the_order_of_the_futures() {
        let later = |turns: usize| async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            turns
        };
        let joined = timed(join_all((0..40).rev().map(later)));
        assert_eq!(joined, (0..40).rev().collect::<Vec<_>>());
        assert_eq!(timed(join_all((0..0).map(later))), [0; 0]);
    }
}

//! Tests whose disks look at the clock.

use engine::{BackendChoice, Config};

/// Runs `future` on one core of an engine.
pub(crate) fn timed<F: Future>(future: F) -> F::Output {
    let config = Config {
        backend: BackendChoice::Threads,
        cores: 1,
    };
    engine::run(&config, |_| future).expect("threads are everywhere")
}

/// Whether a future is ready when it is polled now.
pub(crate) async fn is_ready<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_ready()))
        .await
}

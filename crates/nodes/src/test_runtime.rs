//! Tests that need an engine, or a clock, under them.

use engine::{BackendChoice, Config};
use testkit::requires;

/// Runs `future` on one core of an engine.
pub(crate) fn timed<F: Future>(future: F) -> F::Output {
    let config = Config {
        backend: BackendChoice::Threads,
        cores: 1,
    };
    engine::run(&config, |_| future).expect("threads are everywhere")
}

/// Whether a future is ready when it is polled now.
pub(crate) async fn is_ready<F: Future + ?Sized>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_ready()))
        .await
}

/// Runs `test` on the engine with blocking threads, and with io_uring where it works.
pub(crate) fn on_each_backend<F: Future<Output = ()>>(test: impl Fn() -> F) {
    let run = |backend| {
        let config = Config { backend, cores: 1 };
        engine::run(&config, |_| test()).unwrap();
    };
    run(BackendChoice::Threads);
    if requires::all(&[requires::io_uring()]) {
        run(BackendChoice::Uring);
    }
}

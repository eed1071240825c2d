//! [`HttpThread`]: HTTP/1 on a thread and a runtime of its own, for metrics and the live page.
//!
//! # Invariants
//!
//! * No connection here shares a thread with a client of an export: neither waits for the other.
//! * Connections at once are bounded ([`CONNECTIONS_MAX`]), and so is the time of their heads. One more ends the oldest:
//!   clients that send or take nothing keep no other out. A client that acknowledges nothing is ended by the kernel
//!   ([`SILENCE_MAX`]).
//! * Dropping it ends every connection at once and waits for the thread.
//!
//! # What it does not do
//!
//! It knows no route, and no TLS.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::failure::Failure;

/// Connections at once.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// A head must be there within this time; a connection between two requests is ended after it, too.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which bytes may wait for a client that does not take them.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Threads that may wait for files and other processes.
const BLOCKING_MAX: usize = 4;
/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct HttpThread {
    name: &'static str,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Listens at `address` for what messages call `name`.
pub(crate) fn bind(name: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address);
    let bound = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|e| Failure::because(format!("cannot serve {name} on {address}"), &e))
}

impl HttpThread {
    /// Serves `service` on `listener`. With `keep_alive` a connection may have several requests.
    pub(crate) fn start<S, B>(
        name: &'static str,
        listener: TcpListener,
        keep_alive: bool,
        service: S,
    ) -> Result<Self, Failure>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let failed = |e: io::Error| Failure::because(format!("cannot serve {name}"), &e);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_MAX)
            .build()
            .map_err(failed)?;
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    served = serve(name, listener, keep_alive, service) => {
                        if let Err(e) = served {
                            tracing::error!("{name}: {e}");
                        }
                    }
                }
            });
            // What still waits for another process, on a thread of the blocking pool, holds up no stop.
            runtime.shutdown_background();
        };
        let thread = engine::thread(name, work).map_err(failed)?;
        Ok(Self {
            name,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for HttpThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of {} panicked", self.name);
        }
    }
}

async fn serve<S, B>(
    name: &'static str,
    listener: TcpListener,
    keep_alive: bool,
    service: S,
) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = tokio::net::TcpListener::from_std(listener)?;
    // In the order they came.
    let mut connections: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                tracing::warn!("{name}: accept: {e}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        connections.retain(|connection| !connection.is_finished());
        while connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = connections.pop_front()
        {
            tracing::debug!(
                "{name}: the oldest of {CONNECTIONS_MAX} connections is ended for another"
            );
            oldest.abort();
        }
        bound_silence(name, &stream);
        let service = service.clone();
        connections.push_back(engine::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .keep_alive(keep_alive);
            let served = http.serve_connection(TokioIo::new(stream), service);
            if let Err(e) = served.await {
                tracing::debug!("{name}: {e}");
            }
        }));
    }
}

fn bound_silence(name: &str, stream: &TcpStream) {
    let limit = u32::try_from(SILENCE_MAX.as_millis()).unwrap_or(u32::MAX);
    if let Err(e) = set_tcp_user_timeout(stream, limit) {
        tracing::debug!("{name}: {e}");
    }
}

//! Figures for Prometheus over HTTP: `GET /metrics`.
//!
//! # Invariants
//!
//! * It has a thread and a runtime of its own: a scrape never waits for a client's request, nor the
//!   other way round. What they share is the lock of an export's list of clients, for as long as
//!   its figures are copied.
//! * Connections at once are bounded ([`CONNECTIONS_MAX`]), and so is the time of their heads. One more ends the oldest:
//!   scrapers that send or take nothing keep no other from the figures.

mod arrays;
mod snapshots;
#[cfg(test)]
mod tests;
mod text;
mod volume_moves;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nbd::server::Control;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::arrays::Arrays;
use crate::failure::Failure;
use crate::snapshots::Snapshots;

/// Connections at once.
const CONNECTIONS_MAX: usize = 16;
/// A head must be there within this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The thread that answers; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Metrics {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Listens at `address`.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address);
    let bound = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|e| Failure::because(format!("cannot serve metrics on {address}"), &e))
}

/// What has figures besides the exports.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricSources {
    pub(crate) arrays: Arc<Arrays>,
    pub(crate) snapshots: Arc<Snapshots>,
}

/// Answers on `listener` what `control` and `sources` say.
pub(crate) fn start(
    listener: TcpListener,
    control: Control,
    sources: MetricSources,
) -> Result<Metrics, Failure> {
    let failed = |e: io::Error| Failure::because("cannot serve metrics", &e);
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(failed)?;
    let work = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = stopped => {}
                served = serve(listener, control, sources) => {
                    if let Err(e) = served {
                        tracing::error!("metrics: {e}");
                    }
                }
            }
        });
    };
    let thread = engine::thread("metrics", work).map_err(failed)?;
    Ok(Metrics {
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl Drop for Metrics {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a bug ended the metrics");
        }
    }
}

async fn serve(listener: TcpListener, control: Control, sources: MetricSources) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    // In the order they came.
    let mut connections: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                tracing::warn!("metrics: accept: {e}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        connections.retain(|connection| !connection.is_finished());
        while connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = connections.pop_front()
        {
            tracing::debug!(
                "metrics: the oldest of {CONNECTIONS_MAX} connections is ended for another"
            );
            oldest.abort();
        }
        let (control, sources) = (control.clone(), sources.clone());
        connections.push_back(engine::spawn(async move {
            let answer =
                service_fn(|request| std::future::ready(answer(&request, &control, &sources)));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                // A scraper that comes every 15 s does not need to keep its connection in between.
                .keep_alive(false);
            if let Err(e) = http.serve_connection(TokioIo::new(stream), answer).await {
                tracing::debug!("metrics: {e}");
            }
        }));
    }
}

fn answer(
    request: &Request<Incoming>,
    control: &Control,
    sources: &MetricSources,
) -> Result<Response<String>, Infallible> {
    let mut response = Response::new(String::new());
    if request.uri().path() != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
        "the figures are at /metrics\n".clone_into(response.body_mut());
        return Ok(response);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        let headers = response.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    *response.body_mut() = text::of(
        &control.figures(),
        &sources.arrays.reports(),
        &sources.snapshots.reports(),
        &sources.snapshots.moves(),
    );
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    Ok(response)
}

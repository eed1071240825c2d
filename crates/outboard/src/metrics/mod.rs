//! Figures for Prometheus over HTTP: `GET /metrics`.
//!
//! # Invariants
//!
//! * A scrape never waits for a client's request, nor the other way round ([`HttpThread`]). What they share is the
//!   lock of an export's list of clients, for as long as its figures are copied.

mod arrays;
mod buckets;
mod caches;
mod remotes;
mod snapshots;
#[cfg(test)]
mod tests;
mod text;
mod volume_moves;

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use nbd::server::Control;

use crate::arrays::Arrays;
use crate::failure::Failure;
use crate::http_thread::HttpThread;
use crate::snapshots::Snapshots;

/// What messages call it.
pub(crate) const NAME: &str = "metrics";
/// Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

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
) -> Result<HttpThread, Failure> {
    let answer = move |request| std::future::ready(answer(&request, &control, &sources));
    // A scraper that comes every 15 s does not need to keep its connection in between.
    let keep_alive = false;
    HttpThread::start(NAME, listener, keep_alive, service_fn(answer))
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
    let reports = text::Reports {
        arrays: sources.arrays.reports(),
        snapshots: sources.snapshots.reports(),
        moves: sources.snapshots.moves(),
        caches: crate::caches::status(),
        remotes: crate::remotes::reports(),
        volumes: crate::buckets::figures(),
    };
    *response.body_mut() = text::of(&control.figures(), &reports);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    Ok(response)
}

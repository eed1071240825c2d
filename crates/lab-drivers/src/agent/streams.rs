//! Answers that do not end by themselves: samples, and a fio or an iperf3 that lives as long as its
//! connection.
//!
//! Invariant: each is a task that ends when its client hangs up, does not read for [`LINES_MAX`] lines,
//! or the agent stops; the place that it took is free again only after what it started has ended.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use lab::agent::local::{AgentService, FioServer, FioServerError, Iperf3Server};
use lab::sensors::Sampler;
use lab::tools::ToolError;
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::limits::LINES_MAX;

/// Between two lines. Timers are never early, so a reading is due each time.
const INTERVAL: Duration = Duration::from_nanos(lab::sensors::INTERVAL.0);

/// Sends a line of samples a second.
pub(super) fn samples(
    host: Arc<AgentService>,
    sampler: Sampler,
    place: OwnedSemaphorePermit,
    stopping: watch::Receiver<bool>,
) -> Receiver<Bytes> {
    let (lines, receiver) = channel(LINES_MAX);
    drop(engine::spawn(async move {
        let mut sampler = sampler;
        loop {
            let host = host.clone();
            // Reading a drive's temperature may take long.
            let (again, line) = engine::blocking(move || {
                let line = host.line(&mut sampler);
                (sampler, line)
            })
            .await;
            sampler = again;
            let sent = line.is_none_or(|line| send(&lines, &line));
            if !sent || pause(&lines, &stopping).await {
                break;
            }
        }
        drop(place);
    }));
    receiver
}

/// Starts fio's server; the first line says where it is.
pub(super) async fn fio(
    address: IpAddr,
    directories: Vec<PathBuf>,
    place: OwnedSemaphorePermit,
    stopping: watch::Receiver<bool>,
) -> Result<Receiver<Bytes>, FioServerError> {
    let server = engine::blocking(move || FioServer::start(address, &directories)).await?;
    let ready = server.ready().clone();
    Ok(held(server, &ready, FioServer::is_running, place, stopping))
}

/// Starts iperf3's server; the first line says where it is.
pub(super) async fn iperf3(
    address: IpAddr,
    place: OwnedSemaphorePermit,
    stopping: watch::Receiver<bool>,
) -> Result<Receiver<Bytes>, ToolError> {
    let server = engine::blocking(move || Iperf3Server::start(address)).await?;
    let ready = server.ready().clone();
    Ok(held(
        server,
        &ready,
        Iperf3Server::is_running,
        place,
        stopping,
    ))
}

/// Keeps a server as long as its client is there and it runs.
fn held<S: Send + 'static>(
    server: S,
    ready: &impl Serialize,
    is_running: impl Fn(&S) -> bool + Send + 'static,
    place: OwnedSemaphorePermit,
    stopping: watch::Receiver<bool>,
) -> Receiver<Bytes> {
    let (lines, receiver) = channel(LINES_MAX);
    send(&lines, ready);
    drop(engine::spawn(async move {
        while is_running(&server) && !pause(&lines, &stopping).await {
            if lines.try_send(Bytes::from_static(b"\n")).is_err() {
                break;
            }
        }
        engine::blocking(move || drop(server)).await;
        drop(place);
    }));
    receiver
}

/// Whether the client takes it. One that does not read has its queue fill up, and is disconnected.
fn send(lines: &Sender<Bytes>, line: &impl Serialize) -> bool {
    let Ok(mut text) = serde_json::to_vec(line) else {
        return false;
    };
    text.push(b'\n');
    lines.try_send(text.into()).is_ok()
}

/// Waits for the next line's time. Whether to end instead.
async fn pause(lines: &Sender<Bytes>, stopping: &watch::Receiver<bool>) -> bool {
    let mut stopping = stopping.clone();
    tokio::select! {
        () = engine::clock::sleep(INTERVAL) => false,
        () = lines.closed() => true,
        _ = stopping.wait_for(|stopping| *stopping) => true,
    }
}

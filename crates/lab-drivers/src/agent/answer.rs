//! From a request to its answer.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::body::Body;
use hyper::header::{
    ALLOW, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use lab::agent::local::{AgentService, FioServerError};
use lab::agent::protocol;
use lab::agent::query::{DIRECTORIES_MAX, directories};
use lab::units::Nanos;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::body::ResponseBody;
use super::limits::{END_LIMIT, STREAMS_MAX, WRONG_TOKEN_PAUSE};
use super::streams;
use super::token::ServerToken;

/// What answers are made of.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    pub(super) host: Arc<AgentService>,
    token: Arc<ServerToken>,
    /// Where the servers of fio and iperf3 listen.
    address: IpAddr,
    samples: Arc<Semaphore>,
    fio: Arc<Semaphore>,
    iperf3: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

/// Why a request is refused.
#[derive(Debug)]
struct RefusedRequest {
    status: StatusCode,
    reason: String,
}

impl RefusedRequest {
    fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { status, reason }
    }
}

type Answer = Result<ResponseBody, RefusedRequest>;

fn refuse(status: StatusCode, reason: impl Into<String>) -> Answer {
    Err(RefusedRequest::new(status, reason))
}

/// Something failed that the client could not know.
fn failed(error: impl ToString) -> RefusedRequest {
    RefusedRequest::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

impl Answers {
    pub(super) fn new(
        host: Arc<AgentService>,
        token: Arc<ServerToken>,
        address: IpAddr,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            host,
            token,
            address,
            samples: Arc::new(Semaphore::new(STREAMS_MAX)),
            fio: Arc::new(Semaphore::new(1)),
            iperf3: Arc::new(Semaphore::new(1)),
            stopping,
        }
    }

    /// Waits until nothing runs any more that was started for a client.
    pub(super) async fn without_servers(&self) {
        // They are never closed.
        drop(self.fio.acquire().await);
        drop(self.iperf3.acquire().await);
    }

    /// Answers one request.
    pub(super) async fn to<B: Body>(&self, request: Request<B>) -> Response<ResponseBody> {
        let received = self.host.now();
        match self.answer(&request, received).await {
            Ok(content) => {
                let mut response = Response::new(content);
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                response
            }
            Err(refusal) => refused(&refusal),
        }
    }

    async fn answer<B: Body>(&self, request: &Request<B>, received: Nanos) -> Answer {
        if !self.knows(request) {
            engine::clock::sleep(WRONG_TOKEN_PAUSE).await;
            return refuse(StatusCode::UNAUTHORIZED, "the token is wrong");
        }
        if !request.body().is_end_stream() {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "requests have no body");
        }
        let path = request.uri().path();
        let wanted = match path {
            protocol::ABOUT | protocol::CLOCK | protocol::COUNTERS | protocol::SAMPLES => {
                Method::GET
            }
            protocol::DROP_CACHES | protocol::FIO | protocol::IPERF3 => Method::POST,
            _ => {
                return refuse(StatusCode::NOT_FOUND, "there is no such thing here");
            }
        };
        if request.method() != wanted {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, wanted.as_str());
        }
        let query = request.uri().query();
        if path == protocol::FIO {
            return self.fio(query).await;
        }
        let port = port(query)?;
        match path {
            protocol::ABOUT => self.about().await,
            protocol::CLOCK => json(&self.host.clock(received)),
            protocol::COUNTERS => self.counters(port).await,
            protocol::SAMPLES => self.samples(port).await,
            protocol::DROP_CACHES => self.drop_caches(port).await,
            _ => self.iperf3().await,
        }
    }

    /// Whether the request shows the token.
    fn knows<B>(&self, request: &Request<B>) -> bool {
        let shown = request.headers().get(AUTHORIZATION);
        let shown = shown.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        shown.is_some_and(|shown| self.token.is(shown))
    }

    async fn about(&self) -> Answer {
        let host = self.host.clone();
        json(&engine::blocking(move || host.about()).await)
    }

    async fn counters(&self, port: Option<u16>) -> Answer {
        let host = self.host.clone();
        let counters = engine::blocking(move || {
            let server = port.and_then(|port| host.server_at(port));
            host.counters(server)
        });
        json(&counters.await)
    }

    async fn samples(&self, port: Option<u16>) -> Answer {
        let Ok(place) = self.samples.clone().try_acquire_owned() else {
            let reason = "as many as can be are following this machine already";
            return refuse(StatusCode::SERVICE_UNAVAILABLE, reason);
        };
        let host = self.host.clone();
        let sampler = engine::blocking(move || {
            let server = port.and_then(|port| host.server_at(port));
            AgentService::sampler(server)
        })
        .await;
        let (host, stopping) = (self.host.clone(), self.stopping.clone());
        let lines = streams::samples(host, sampler, place, stopping);
        Ok(ResponseBody::Lines(lines))
    }

    async fn drop_caches(&self, port: Option<u16>) -> Answer {
        if !self.host.rights().drop_caches {
            return refuse(StatusCode::FORBIDDEN, "--allow-drop-caches");
        }
        let (host, stopping) = (self.host.clone(), self.stopping.clone());
        let dropped = engine::blocking(move || {
            let server = port.and_then(|port| host.server_at(port));
            host.drop_caches(server, &mut |_| !*stopping.borrow())
        })
        .await;
        let dropped = dropped.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                RefusedRequest::new(StatusCode::CONFLICT, "another client is dropping them")
            }
            _ => failed(error),
        })?;
        json(&dropped)
    }

    async fn fio(&self, query: Option<&str>) -> Answer {
        if !self.host.rights().fio {
            return refuse(StatusCode::FORBIDDEN, "--allow-fio");
        }
        let directories = directories(query).ok_or_else(|| {
            let reason = format!("only ?in=/DIRECTORY is known, {DIRECTORIES_MAX} at most");
            RefusedRequest::new(StatusCode::BAD_REQUEST, reason)
        })?;
        let place = place_of(&self.fio, "fio runs for another client").await?;
        let started = streams::fio(self.address, directories, place, self.stopping.clone()).await;
        let lines = started.map_err(|error| {
            let status = match error {
                FioServerError::Folder { .. } => StatusCode::BAD_REQUEST,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            RefusedRequest::new(status, error.to_string())
        })?;
        Ok(ResponseBody::Lines(lines))
    }

    async fn iperf3(&self) -> Answer {
        if !self.host.rights().iperf3 {
            return refuse(StatusCode::FORBIDDEN, "--allow-iperf3");
        }
        let place = place_of(&self.iperf3, "iperf3 runs for another client").await?;
        let started = streams::iperf3(self.address, place, self.stopping.clone()).await;
        Ok(ResponseBody::Lines(started.map_err(failed)?))
    }
}

/// The place of the one program of its kind, also after the one of a client that has just hung up.
async fn place_of(
    place: &Arc<Semaphore>,
    taken: &str,
) -> Result<OwnedSemaphorePermit, RefusedRequest> {
    engine::clock::timeout(END_LIMIT, place.clone().acquire_owned())
        .await
        .ok()
        .and_then(Result::ok)
        .ok_or_else(|| RefusedRequest::new(StatusCode::CONFLICT, taken))
}

fn json(value: &impl Serialize) -> Answer {
    let text = serde_json::to_vec(value).map_err(failed)?;
    Ok(ResponseBody::whole(text))
}

/// `port=N` and nothing else.
fn port(query: Option<&str>) -> Result<Option<u16>, RefusedRequest> {
    let Some(query) = query else {
        return Ok(None);
    };
    let port = query.strip_prefix("port=").and_then(|n| n.parse().ok());
    let port = port.filter(|port| *port > 0);
    port.map(Some)
        .ok_or_else(|| RefusedRequest::new(StatusCode::BAD_REQUEST, "only ?port=N is known"))
}

/// What was refused once is not repeated on the same connection.
fn refused(refusal: &RefusedRequest) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::whole(format!("{}\n", refusal.reason)));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    match refusal.status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            if let Ok(method) = HeaderValue::from_str(&refusal.reason) {
                headers.insert(ALLOW, method);
            }
        }
        _ => {}
    }
    response
}

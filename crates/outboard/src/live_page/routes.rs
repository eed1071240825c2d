//! The routes of the live page: assets, snapshots, server-sent events, actions.
//!
//! # Invariants
//!
//! * Every response has the headers of [`HEADERS`]: scripts and styles come from this server alone, none is inline.
//! * A request for another host gets 421 and nothing else.
//! * At most [`LISTENERS_MAX`] streams of events are open; more get 503.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::PageSource;
use super::access::{ActionRefusal, PageAccess};
use super::action::{ACTION_MAX, PageAction};
use super::assets::{self, Asset};
use super::feed::{INTERVAL, StatusFeed};

/// Streams of events at once: fewer than there may be connections.
pub(super) const LISTENERS_MAX: usize = 32;
/// Time for the body of an action.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a wrong token is refused.
const REFUSAL_PAUSE: Duration = Duration::from_millis(500);
/// The header with the token.
const TOKEN: HeaderName = HeaderName::from_static("x-outboard-token");

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// An action on its way to the engine, and where its result is expected.
pub(super) type RequestedAction = (PageAction, oneshot::Sender<Result<(), String>>);

/// What the routes share.
pub(super) struct Page<S> {
    pub(super) feed: StatusFeed<S>,
    pub(super) access: PageAccess,
    pub(super) actions: mpsc::Sender<RequestedAction>,
    pub(super) listeners: Arc<Semaphore>,
}

/// All routes.
pub(super) fn router<S: PageSource>(page: Arc<Page<S>>) -> Router {
    let mut router = Router::new()
        .route("/api/status", get(status::<S>))
        .route("/api/events", get(events::<S>))
        .route("/api/action", post(action::<S>));
    for (path, asset) in assets::ALL {
        router = router.route(path, get(move || std::future::ready(served(asset))));
    }
    router
        .layer(middleware::from_fn_with_state(page.clone(), guard::<S>))
        .with_state(page)
}

/// Refuses other hosts, and completes the headers.
async fn guard<S: PageSource>(
    State(page): State<Arc<Page<S>>>,
    request: Request,
    next: Next,
) -> Response {
    let host = text(request.headers(), &header::HOST);
    let mut response = match host {
        Some(host) if page.access.is_host(host) => next.run(request).await,
        _ => {
            let what = "this server has another name: see --http-host";
            refusal(StatusCode::MISDIRECTED_REQUEST, what)
        }
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn served(asset: Asset) -> Response {
    let headers = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, asset.content).into_response()
}

async fn status<S: PageSource>(State(page): State<Arc<Page<S>>>) -> Response {
    match page.feed.current().await {
        Ok(snapshot) => {
            let headers = [(header::CONTENT_TYPE, "application/json")];
            (headers, snapshot.json).into_response()
        }
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// One stream of events.
struct Listener<S> {
    page: Arc<Page<S>>,
    /// The snapshot that was sent last.
    last: u64,
    _place: OwnedSemaphorePermit,
}

async fn events<S: PageSource>(State(page): State<Arc<Page<S>>>) -> Response {
    let Ok(place) = page.listeners.clone().try_acquire_owned() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open");
    };
    let listener = Listener {
        page,
        last: 0,
        _place: place,
    };
    let stream = stream::unfold(listener, async |mut listener| {
        loop {
            if listener.last > 0 {
                tokio::time::sleep(INTERVAL).await;
            }
            // What cannot be serialized ends the stream.
            let snapshot = listener.page.feed.current().await.ok()?;
            if snapshot.number != listener.last {
                listener.last = snapshot.number;
                return Some((Ok::<Bytes, Infallible>(snapshot.event), listener));
            }
        }
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    (headers, Body::from_stream(stream)).into_response()
}

async fn action<S: PageSource>(State(page): State<Arc<Page<S>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let host = text(&head.headers, &header::HOST).unwrap_or_default();
    let origin = text(&head.headers, &header::ORIGIN);
    let token = head.headers.get(TOKEN).map(HeaderValue::as_bytes);
    match page.access.check_action(host, origin, token) {
        Ok(()) => {}
        Err(ActionRefusal::Off) => {
            let what = "this server permits no actions: see --http-admin";
            return refusal(StatusCode::FORBIDDEN, what);
        }
        Err(ActionRefusal::Origin) => {
            return refusal(StatusCode::FORBIDDEN, "the request is from another page");
        }
        Err(ActionRefusal::Token) => {
            tokio::time::sleep(REFUSAL_PAUSE).await;
            return refusal(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
        }
    }
    let body = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, ACTION_MAX)).await;
    let Ok(Ok(body)) = body else {
        let what = format!("no action of at most {ACTION_MAX} bytes");
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, &what);
    };
    let action: PageAction = match serde_json::from_slice(&body) {
        Ok(action) => action,
        Err(error) => {
            return refusal(StatusCode::BAD_REQUEST, &format!("not an action: {error}"));
        }
    };
    perform(&page.actions, action).await
}

async fn perform(actions: &mpsc::Sender<RequestedAction>, action: PageAction) -> Response {
    let (sender, result) = oneshot::channel();
    if actions.try_send((action, sender)).is_err() {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "other actions are pending");
    }
    match result.await {
        Ok(Ok(())) => answer(StatusCode::OK, &json!({ "done": true })),
        Ok(Err(why)) => refusal(StatusCode::CONFLICT, &why),
        Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn refusal(status: StatusCode, why: &str) -> Response {
    answer(status, &json!({ "error": why }))
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (status, headers, body.to_string()).into_response()
}

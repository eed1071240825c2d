//! [`Reconnect`]: the attempts to reach a server again, and the outage they are to end.
//!
//! An outage begins when the connections are lost and ends when a request of a caller succeeds; attempts that fail keep it.
//! The pauses between the attempts of one outage grow ([`pause`]).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use engine::clock;

use crate::client::dial::Dialed;
use crate::client::session::connect::{connect_all, pause};
use crate::client::{ClientConfig, ClientError, Target};

/// Connections that lived for less are not made again without a pause.
const SHORT_LIFE: Duration = Duration::from_secs(1);

type Connected = Result<Vec<Dialed>, ClientError>;

/// The server is unreachable, or was reached again and has not answered a caller yet.
#[derive(Debug)]
pub(crate) struct Outage {
    pub(crate) since: Instant,
    pub(crate) last: ClientError,
    attempts: u32,
}

/// The attempts to reach a server again.
#[derive(Default)]
pub(crate) struct Reconnect {
    outage: Option<Outage>,
    attempt: Option<Pin<Box<dyn Future<Output = Connected> + Send>>>,
    /// How often connections were made again.
    count: u64,
    /// The time that the outages took that are over.
    outages_ended: Duration,
}

impl Reconnect {
    pub(crate) const fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// How often connections were made again.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Records an error: it begins an outage, or is the last one of it.
    pub(crate) fn note(&mut self, error: ClientError, now: Instant) {
        match &mut self.outage {
            Some(outage) => outage.last = error,
            None => {
                self.outage = Some(Outage {
                    since: now,
                    last: error,
                    attempts: 0,
                });
            }
        }
    }

    /// The server answers callers again.
    pub(crate) fn end_outage(&mut self, now: Instant) {
        if let Some(outage) = self.outage.take() {
            self.outages_ended += now.saturating_duration_since(outage.since);
        }
    }

    /// The time that the outages took that are over.
    pub(crate) const fn outages_ended(&self) -> Duration {
        self.outages_ended
    }

    /// Starts to connect to the first of `servers` that answers, at once where the connections that were lost had lived for a while.
    /// `lived`: for how long.
    pub(crate) fn start(&mut self, servers: Vec<Target>, config: ClientConfig, lived: Duration) {
        let failed = self.outage.as_ref().map_or(0, |outage| outage.attempts);
        let attempts = failed.max(u32::from(lived < SHORT_LIFE));
        self.attempt = Some(Box::pin(async move {
            clock::sleep(pause(attempts)).await;
            connect_all(servers, &config).await
        }));
    }

    /// Ready when the attempt under way is over.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Connected> {
        let Some(attempt) = &mut self.attempt else {
            return Poll::Pending;
        };
        let connected = attempt.as_mut().poll(cx);
        if connected.is_ready() {
            self.attempt = None;
        }
        connected
    }

    /// Ends the attempt under way.
    pub(crate) fn cancel(&mut self) {
        self.attempt = None;
    }

    /// The connections of an attempt cannot be used.
    pub(crate) const fn attempt_failed(&mut self) {
        if let Some(outage) = &mut self.outage {
            outage.attempts = outage.attempts.saturating_add(1);
        }
    }

    /// There are connections again. They may be lost before they are of use, so that the next pause is longer.
    pub(crate) const fn attempt_succeeded(&mut self) {
        self.count += 1;
        self.attempt_failed();
    }
}

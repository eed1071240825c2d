//! The socket to the kernel's nbd family: one request, its answers.
//!
//! The kernel carries a request out while it is sent, so a request takes as long as the kernel does,
//! and with a device in trouble that may be for ever. So every conversation happens on a thread of its
//! own ([`within`]) and is given up after [`ANSWER_FOR`].

use std::fmt::{Debug, Display};
use std::io;
use std::time::Duration;

use neli::consts::nl::NlmF;
use neli::consts::socket::NlFamily;
use neli::err::{RouterError, SocketError};
use neli::nl::NlPayload;
use neli::router::synchronous::NlRouter;
use neli::utils::Groups;
use tokio::sync::oneshot;

use super::KernelError;
use super::netlink::{self as wire, Connect, Message, MessageError, NbdIndex, NbdShape};

/// How long the kernel may take to answer: longer than any of its own waits here.
pub(super) const ANSWER_FOR: Duration = Duration::from_secs(20);

/// Talks to the kernel for `limit` at most. What comes later is handed to `late`.
///
/// # Errors
/// [`KernelError`]; [`KernelError::Silent`] when the time is over. The thread is left to itself then.
pub(super) async fn within<T: Send + 'static>(
    limit: Duration,
    talk: impl FnOnce() -> Result<T, KernelError> + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> Result<T, KernelError> {
    let (sender, receiver) = oneshot::channel();
    let started = engine::thread("netlink", move || {
        if let Err(Ok(unheard)) = sender.send(talk()) {
            late(unheard);
        }
    });
    started.map_err(KernelError::Socket)?;
    match engine::clock::timeout(limit, receiver).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) | Err(_) => Err(KernelError::Silent { limit }),
    }
}

/// A socket and the family's id.
pub(crate) struct Control {
    router: NlRouter,
    family: u16,
}

impl Control {
    /// Opens a socket and finds the family.
    ///
    /// # Errors
    /// [`KernelError::NoModule`] where the kernel has no nbd.
    pub(crate) fn open() -> Result<Self, KernelError> {
        let (router, _) = NlRouter::connect(NlFamily::Generic, None, Groups::empty())
            .map_err(|e| failed("open its socket", e))?;
        match router.resolve_genl_family(wire::FAMILY) {
            Ok(family) => Ok(Self { router, family }),
            Err(RouterError::Nlmsgerr(_) | RouterError::Msg(_)) => Err(KernelError::NoModule(
                "it has no netlink family of that name".to_owned(),
            )),
            Err(e) => Err(failed("find its family", e)),
        }
    }

    /// Sets up a free device.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn connect(&self, connect: &Connect<'_>) -> Result<NbdIndex, KernelError> {
        let answers = self.request("connect", wire::connect(connect))?;
        let index = answers.iter().find_map(wire::connected_index);
        index.ok_or(KernelError::NoIndex)
    }

    /// Hands over fresh connections for dead ones.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn reconnect(
        &self,
        index: NbdIndex,
        backend: &str,
        sockets: &[i32],
    ) -> Result<(), KernelError> {
        self.request("reconnect", wire::reconnect(index, backend, sockets))?;
        Ok(())
    }

    /// Gives a device another size. Its connections must be alive.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn resize(
        &self,
        index: NbdIndex,
        backend: &str,
        shape: NbdShape,
    ) -> Result<(), KernelError> {
        self.request("resize", wire::resize(index, backend, shape))?;
        Ok(())
    }

    /// Takes a device down.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn disconnect(&self, index: NbdIndex) -> Result<(), KernelError> {
        self.request("disconnect", wire::disconnect(index))?;
        Ok(())
    }

    /// Whether the device is connected.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn connected(&self, index: NbdIndex) -> Result<bool, KernelError> {
        let answers = self.request("say how a device is", wire::status(index))?;
        let connected = |answer| wire::is_connected(answer, index);
        Ok(answers.iter().find_map(connected).unwrap_or(false))
    }

    /// Sends a message; what the kernel answers before its acknowledgement.
    fn request(
        &self,
        what: &'static str,
        message: Result<Message, MessageError>,
    ) -> Result<Vec<Message>, KernelError> {
        let message = message.map_err(|e| KernelError::Message {
            what,
            why: e.to_string(),
        })?;
        let message = NlPayload::Payload(message);
        let answers = self
            .router
            .send::<u16, Message, u16, Message>(self.family, NlmF::ACK, message)
            .map_err(|e| failed(what, e))?;
        let mut found = Vec::new();
        for answer in answers {
            let answer = answer.map_err(|e| failed(what, e))?;
            found.extend(answer.get_payload().cloned());
        }
        Ok(found)
    }
}

fn failed<T, P>(what: &'static str, error: RouterError<T, P>) -> KernelError
where
    T: Debug,
    P: Debug,
    RouterError<T, P>: Display,
{
    let source = match error {
        RouterError::Nlmsgerr(refusal) => {
            let errno = refusal.error().saturating_neg();
            let source = io::Error::from_raw_os_error(errno);
            return KernelError::Refused { what, source };
        }
        RouterError::Socket(SocketError::Io(e)) => match e.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::other(e),
        },
        other => io::Error::other(other.to_string()),
    };
    KernelError::Socket(source)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn in_engine<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send) {
        let config = engine::Config {
            backend: engine::BackendChoice::Threads,
            cores: 1,
        };
        engine::run(&config, |_| work()).unwrap();
    }

    #[test]
    fn a_kernel_reply_after_the_timeout_is_undone() {
        let (answer, wait) = mpsc::channel::<()>();
        let (undo, undone) = mpsc::channel();
        in_engine(|| async move {
            let talk = move || {
                wait.recv().unwrap();
                Ok(7)
            };
            let late = move |device: i32| undo.send(device).unwrap();
            let result = within(Duration::from_millis(20), talk, late).await;
            assert!(
                matches!(result, Err(KernelError::Silent { .. })),
                "{result:?}"
            );
            answer.send(()).unwrap();
            assert_eq!(undone.recv().unwrap(), 7);
        });
    }

    #[test]
    fn an_answer_in_time_is_handed_on() {
        in_engine(|| async {
            let result = within(ANSWER_FOR, || Ok(7), |_| panic!("it was heard")).await;
            assert_eq!(result.unwrap(), 7);
        });
    }
}

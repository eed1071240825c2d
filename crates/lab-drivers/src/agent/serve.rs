//! Connections: accepted, put under TLS, answered, ended.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lab::agent::local::AgentService;
use lab::agent::protocol::HEAD_LEN_MAX;
use nbd::tls::ServerTls;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::answer::Answers;
use super::limits::{
    ACCEPT_PAUSE, CONNECTIONS_MAX, FIELDS_MAX, HEAD_TIMEOUT, SILENT_MAX_MS, STOP_TIMEOUT,
};
use super::token::ServerToken;
use crate::DriverError;

/// An agent that is ready to serve.
#[derive(Debug)]
pub struct AgentServer {
    /// What the agent may do.
    pub host: Arc<AgentService>,
    /// The token that requests must show.
    pub token: Arc<ServerToken>,
    /// The certificate, under TLS.
    pub tls: Option<ServerTls>,
    /// Where it listens, and the servers of fio and iperf3 too.
    pub address: IpAddr,
}

impl AgentServer {
    /// Serves until SIGTERM or SIGINT, then ends what runs.
    ///
    /// # Errors
    /// The listener or the signals cannot be used.
    pub async fn until_stopped(self, listener: TcpListener) -> Result<(), DriverError> {
        let watching = |kind| {
            signal(kind).map_err(|error| DriverError::because("cannot watch for signals", error))
        };
        let mut terminate = watching(SignalKind::terminate())?;
        let mut interrupt = watching(SignalKind::interrupt())?;
        let listener = tokio::net::TcpListener::from_std(listener)
            .map_err(|error| DriverError::because("cannot listen", error))?;
        let (stop, stopping) = watch::channel(false);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
        let answers = Answers::new(self.host, self.token, self.address, stopping.clone());
        let clients = Clients {
            answers: answers.clone(),
            tls: self.tls,
            stopping,
        };
        tokio::select! {
            () = clients.accept(&listener, &places) => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        drop(listener);
        stop.send_replace(true);
        let ended = async {
            drop(places.acquire_many(CONNECTIONS_MAX).await);
            answers.without_servers().await;
        };
        if engine::clock::timeout(STOP_TIMEOUT, ended).await.is_err() {
            tracing::warn!("a client did not hang up in time");
        }
        Ok(())
    }
}

/// What a connection needs.
#[derive(Debug, Clone)]
struct Clients {
    answers: Answers,
    tls: Option<ServerTls>,
    stopping: watch::Receiver<bool>,
}

impl Clients {
    async fn accept(&self, listener: &tokio::net::TcpListener, places: &Arc<Semaphore>) {
        loop {
            // It is never closed.
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let clients = self.clone();
                    drop(engine::spawn(
                        async move { clients.serve(stream, place).await },
                    ));
                }
                Err(error) => {
                    tracing::warn!("accept: {error}");
                    engine::clock::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(self, stream: TcpStream, place: OwnedSemaphorePermit) {
        if let Err(error) = prepare(&stream) {
            tracing::debug!("a client's socket: {error}");
        }
        match &self.tls {
            None => self.speak(stream).await,
            Some(tls) => {
                let handshake = TlsAcceptor::from(tls.config()).accept(stream);
                match engine::clock::timeout(HEAD_TIMEOUT, handshake).await {
                    Ok(Ok(stream)) => self.speak(stream).await,
                    Ok(Err(error)) => tracing::debug!("a client's handshake: {error}"),
                    Err(error) => tracing::debug!("a client's handshake: {error}"),
                }
            }
        }
        drop(place);
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let answer = service_fn(|request| {
            let answers = self.answers.clone();
            async move { Ok::<_, Infallible>(answers.to(request).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_headers(FIELDS_MAX)
            .max_buf_size(HEAD_LEN_MAX);
        let mut stopping = self.stopping.clone();
        let stopped = async { drop(stopping.wait_for(|stopping| *stopping).await) };
        let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), answer));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!("a client: {error}");
        }
    }
}

/// Answers leave at once, and a peer that vanished is noticed.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    Ok(set_tcp_user_timeout(stream, SILENT_MAX_MS)?)
}

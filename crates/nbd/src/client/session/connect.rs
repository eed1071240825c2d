//! Making the connections of a session, and how long to wait before it is tried again.

use std::time::Duration;

use futures_util::future::join_all;
use nbd_proto::{
    BASE_ALLOCATION, ClientHandshakeConfig, ExportInfo, Framing, TransmissionFlags, WriterAccess,
};

use crate::client::dial::{Dialed, dial_one};
use crate::client::first_answer::{Greeting, first_answer};
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::work::PartLimits;
use crate::client::{ClientConfig, ClientError, Target, limits};

/// Pauses between attempts to connect double from the first to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_secs(1);
/// Connections after the first have so many times as long as that one took, but not less than a moment: some servers take
/// one client only and let others wait (`qemu-nbd` without `--shared`).
const OTHERS_FACTOR: u32 = 8;
const OTHERS_MIN: Duration = Duration::from_secs(1);

/// What fits every one of the connections.
pub(super) fn part_limits(export: &ExportInfo, dialed: &[Dialed]) -> PartLimits {
    let smallest = dialed.iter().map(|one| one.export().block_size_max).min();
    let max = smallest.unwrap_or(limits::REQUEST_MAX);
    let wide = dialed.iter().all(Dialed::extended);
    PartLimits::new(export.block_size_min, max, wide)
}

/// How long to wait before attempt number `attempts`, counted from 0.
pub(in crate::client) fn pause(attempts: u32) -> Duration {
    match attempts.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => PAUSE_FIRST
            .saturating_mul(1 << doublings.min(16))
            .min(PAUSE_LAST),
    }
}

/// Makes one connection to one server, with the best of everything that it has.
async fn connect_one(
    server: &Target,
    writer: Option<WriterAccess>,
    timeout: Duration,
    greeting: Greeting,
) -> Result<Dialed, ClientError> {
    let wish = ClientHandshakeConfig {
        framing: Framing::Extended,
        contexts: vec![BASE_ALLOCATION.to_owned()],
        identify: true,
        writer,
        ..ClientHandshakeConfig::new(server.export.clone())
    };
    dial_one(server, wish, (timeout, greeting)).await
}

/// Makes one connection to the first of `servers` that answers, and the others to the same one if the export allows several. Fewer
/// than wanted will do.
pub(in crate::client) async fn connect_all(
    servers: Vec<Target>,
    config: &ClientConfig,
) -> Result<Vec<Dialed>, ClientError> {
    let first = |server: Target, greeting: Greeting| {
        let (writer, timeout) = (config.writer, config.request_timeout);
        Box::pin(async move {
            let begun = engine::clock::now();
            let first = connect_one(&server, writer, timeout, greeting).await?;
            let took = engine::clock::now().saturating_duration_since(begun);
            Ok((first, took))
        })
    };
    #[cfg(test)]
    let last = servers.last().cloned();
    let (first, took) = first_answer(servers, first).await?;
    let target = first.server().clone();
    #[cfg(test)]
    let target = match mutation::is_on(Mutation::ConnectionsAnywhere) {
        true => last.unwrap_or(target),
        false => target,
    };
    let target = &target;
    let patience = (OTHERS_FACTOR * took).max(OTHERS_MIN);
    let patience = patience.min(config.request_timeout);
    let again = config.writer.map(WriterAccess::again);
    let connect = || connect_one(target, again, patience, Greeting::default());
    let shares = TransmissionFlags::CAN_MULTI_CONN | TransmissionFlags::READ_ONLY;
    let several = config.read_only || first.export().flags.intersects(shares);
    let others = if several { config.connections - 1 } else { 0 };
    let mut dialed = vec![first];
    for result in join_all((0..others).map(|_| connect())).await {
        match result {
            Ok(another) if another.disk() == dialed[0].disk() => dialed.push(another),
            Ok(_) => {
                tracing::info!(%target, "goes on with fewer connections: another disk answered")
            }
            Err(error @ ClientError::Fenced { .. }) => return Err(error),
            Err(error) => tracing::info!("goes on with fewer connections: {error}"),
        }
    }
    Ok(dialed)
}

//! [`MemberReopen`]: reopens a remote member of an array after its server was unreachable.
//!
//! # Invariants
//!
//! * A member is reopened only after its connections were cut. A client that waits for its server keeps its pending
//!   requests and the acknowledged writes that were not flushed, and would replay them on reconnect: over what the
//!   rebuild has written to the member in between.
//! * All clients of a member are one writer to its server, which this host is until another one takes over: the first one is
//!   to be the writer, or takes over where the expression says that a member is `missing`; those after it resume.
//! * The server completes what the old connections left in its socket buffers before it gets new requests: the
//!   rebuild waits [`REST`] for that.
//!
//! # What it does not do
//!
//! It cannot make a server forget what it has received. One that takes longer than [`REST`] over a
//! request of an old connection, while it answers on a new one, may still carry it out too late.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::Node;
use engine::clock;
use nbd::client::{AccessMode, Client, ClientError, Cutter, WriterAccess, random_token};
use nodes::array::{Reopen, ReopenError};

use super::{BuildPlace, Builder, lasting};
use crate::graph::disk::Disk;

/// Pause before a reachable server gets new requests; half of the member timeout, if that is less.
const REST: Duration = Duration::from_secs(1);

/// The connections of one member, and the timeout of its requests.
#[derive(Debug, Clone)]
pub(super) struct Links {
    /// The member timeout of the array.
    pub(super) patience: Duration,
    /// The writer token of all clients, and the access mode of the first one.
    writer: WriterAccess,
    cutters: Arc<Mutex<Cutters>>,
}

#[derive(Debug, Default)]
struct Cutters {
    /// Of the clients that were opened, without those that are known to be over.
    living: Vec<Cutter>,
    /// Whether there ever was one.
    any: bool,
}

impl Links {
    /// No connections yet. The first client requests `mode`.
    pub(super) fn new(patience: Duration, mode: AccessMode) -> Self {
        let token = random_token();
        Self {
            patience,
            writer: WriterAccess { token, mode },
            cutters: Arc::default(),
        }
    }

    /// The access that the next client requests.
    pub(super) fn access(&self) -> WriterAccess {
        match self.cutters().any {
            true => self.writer.again(),
            false => self.writer,
        }
    }

    /// Takes in a client that was opened.
    pub(super) fn add(&self, client: &Client) {
        let mut cutters = self.cutters();
        cutters.living.retain(|cutter| !cutter.is_over());
        cutters.living.push(client.cutter());
        cutters.any = true;
    }

    /// Cuts all connections. They stay in the list until they have ended, since this future may be dropped.
    async fn cut(&self) {
        let living = self.cutters().living.clone();
        for cutter in living {
            cutter.cut().await;
        }
    }

    fn cutters(&self) -> MutexGuard<'_, Cutters> {
        // A list is right at every moment.
        self.cutters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reopens a disk that consists of remote disks only.
#[derive(Debug)]
pub(super) struct MemberReopen {
    disk: Disk,
    text: String,
    read_only: bool,
    connections: usize,
    links: Links,
}

impl MemberReopen {
    /// Reopens `disk` with the options that `builder` has at `place`.
    pub(super) fn new(
        disk: &Disk,
        builder: &Builder,
        place: &BuildPlace<'_>,
        links: Links,
    ) -> Self {
        let mut disk = disk.clone();
        keep_targets(&mut disk);
        Self {
            disk,
            text: place.text.to_owned(),
            read_only: place.read_only,
            connections: builder.connections,
            links,
        }
    }
}

/// Makes the paths of all targets absolute: the process that serves the array may change its working directory.
fn keep_targets(disk: &mut Disk) {
    if let Disk::Remote { target, .. } = disk
        && let Ok(kept) = lasting(target.clone())
    {
        *target = kept;
    }
    disk.children_mut().iter_mut().for_each(keep_targets);
}

impl Reopen for MemberReopen {
    fn sever(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.links.cut())
    }

    fn reopen(&self) -> Pin<Box<dyn Future<Output = Result<Node, ReopenError>> + Send + '_>> {
        Box::pin(async {
            self.sever().await;
            let known = self.links.cutters().any;
            let mut builder = Builder::new(self.read_only).with_connections(self.connections);
            let place = BuildPlace {
                text: &self.text,
                read_only: self.read_only,
                kept: false,
                tables: Vec::new(),
                links: Some(self.links.clone()),
            };
            let built = builder.child(&self.disk, &place).await;
            let built = built.map_err(|error| match error.writer_refusal() {
                Some(ClientError::Fenced { text, .. }) => ReopenError::Fenced(text.clone()),
                _ => ReopenError::Unreachable(error.to_string()),
            })?;
            if known {
                clock::sleep(REST.min(self.links.patience / 2)).await;
            }
            Ok(built.disk().clone())
        })
    }
}

//! Disks of single clients that several servers have, with a storage that fences them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::{BlockDevice as _, Geometry, Node, WriteFlags};
use nbd_proto::{AccessMode, ClientToken, Command, WriterAccess};
use testkit::{gather, single};

use super::super::harness::{controlled, wait_until};
use super::super::standby::{BLOCK, OpenedStorage, Storage, ours, raw_address};
use super::super::{RawClient, request};
use super::{SIZE, export};
use crate::client::{Address, Target};
use crate::server::{
    CannotOpen, ClientDiskFigures, ClientFuture, ClientName, DiskFence, DiskPerClient, ExportDisk,
    Limits, NamedBy, Nameless, Peer, Rules,
};

/// Opens disks of a storage each, which the tests open as another server.
#[derive(Debug)]
struct FencedDisks {
    geometry: Geometry,
    storages: Mutex<HashMap<ClientName, (Arc<Storage>, u64)>>,
    attempts: AtomicUsize,
    /// An opening finds by itself that it was fenced.
    notifies: bool,
    fails: bool,
}

impl FencedDisks {
    fn new(notifies: bool) -> Arc<Self> {
        Arc::new(Self {
            geometry: Geometry::native(SIZE),
            storages: Mutex::default(),
            attempts: AtomicUsize::new(0),
            notifies,
            fails: false,
        })
    }

    /// The storage of the only client.
    fn storage(&self) -> Arc<Storage> {
        let storages = self.storages.lock().expect("no panic");
        assert_eq!(storages.len(), 1);
        let storage = storages.values().next().map(|(storage, _)| storage.clone());
        storage.expect("one")
    }

    /// Its disk is deleted.
    fn delete(&self) {
        self.storages.lock().expect("no panic").clear();
    }

    fn opened(&self, name: &ClientName) -> (Arc<Storage>, u64) {
        let storages = self.storages.lock().expect("no panic");
        storages.get(name).expect("it is open").clone()
    }
}

impl DiskPerClient for FencedDisks {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn name(&self, peer: &Peer) -> Result<ClientName, Nameless> {
        NamedBy::Address.name(peer)
    }

    fn image(&self) -> &'static str {
        "a"
    }

    fn open<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, Result<Node, CannotOpen>> {
        Box::pin(async move {
            self.attempts.fetch_add(1, Ordering::SeqCst);
            if self.fails {
                return Err(CannotOpen {
                    client_message: "no room for it".to_owned(),
                    cause: "no room".to_owned(),
                });
            }
            let mut storages = self.storages.lock().expect("no panic");
            let new = || (Storage::new(self.notifies), 0);
            let (storage, number) = storages.entry(name.clone()).or_insert_with(new);
            *number = storage.open();
            let disk: Node = Arc::new(OpenedStorage::new(storage, Some(*number)));
            Ok(disk)
        })
    }

    fn fence(&self) -> Option<&dyn DiskFence> {
        Some(self)
    }

    fn closed<'a>(&'a self, _: &'a ClientName) -> ClientFuture<'a, ()> {
        Box::pin(async {})
    }

    fn remove<'a>(&'a self, _: &'a ClientName, _: &'a str) -> ClientFuture<'a, Result<(), String>> {
        Box::pin(async { Err("no test removes one".to_owned()) })
    }

    fn list(&self) -> Vec<ClientDiskFigures> {
        Vec::new()
    }
}

impl DiskFence for FencedDisks {
    fn lost(&self, name: &ClientName) -> ClientFuture<'static, bool> {
        let (storage, _) = self.opened(name);
        Box::pin(async move {
            storage.fenced().await;
            true
        })
    }

    fn confirm<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, Result<bool, CannotOpen>> {
        Box::pin(async {
            let (storage, number) = self.opened(name);
            Ok(storage.openings() == number)
        })
    }
}

/// Runs `body` while a server has such disks.
fn fenced<F: Future>(disks: &Arc<FencedDisks>, body: impl FnOnce(Target) -> F) -> F::Output {
    let exports = vec![(
        export(ExportDisk::PerClient(disks.clone())),
        Rules::default(),
    )];
    controlled(exports, Limits::default(), |address, _| {
        let address = Address::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        };
        body(Target::new(address, "disk".to_owned()))
    })
}

/// Requests the identity of the disk: the names in the answer.
async fn query(raw: &mut RawClient, is_coming: bool) -> Vec<String> {
    let access = WriterAccess {
        token: ClientToken::new([9; 16]),
        mode: AccessMode::Write,
    };
    let client = format!("outboard:client={access}");
    let queries = ["outboard:disk", &client];
    let queries = &queries[..1 + usize::from(is_coming)];
    let mut data = b"\0\0\0\x04disk".to_vec();
    let number = |len: usize| u32::try_from(len).expect("short").to_be_bytes();
    data.extend(number(queries.len()));
    for query in queries {
        data.extend(number(query.len()));
        data.extend(query.as_bytes());
    }
    raw.option(9, &data).await;
    let mut names = Vec::new();
    loop {
        let (kind, text) = reply(raw).await;
        match kind {
            4 => names.push(text[4..].to_owned()),
            kind => {
                assert_eq!(kind, 1, "NBD_REP_ACK");
                return names;
            }
        }
    }
}

/// A reply to an option: its kind and its text.
async fn reply(raw: &mut RawClient) -> (u32, String) {
    let head = raw.take(20).await;
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let text = raw.take(number(16) as usize).await;
    (number(12), String::from_utf8_lossy(&text).into_owned())
}

/// What `GO` is answered.
async fn go(raw: &mut RawClient) -> (u32, String) {
    raw.option(7, b"\0\0\0\x04disk\0\0").await;
    reply(raw).await
}

async fn new_raw(target: &Target) -> RawClient {
    let mut raw = RawClient::connect(raw_address(target)).await;
    raw.greet().await;
    raw
}

#[test]
fn a_query_alone_opens_nothing_and_that_of_a_client_that_is_coming_has_the_identity() {
    let disks = FencedDisks::new(true);
    fenced(&disks.clone(), |target| async move {
        let mut raw = new_raw(&target).await;
        let names = query(&mut raw, false).await;
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[0].starts_with("outboard:incarnation="), "{names:?}");
        assert_eq!(names[1], "outboard:writers=many");
        assert_eq!(disks.attempts.load(Ordering::SeqCst), 0);
        let names = query(&mut raw, true).await;
        let identity = disks.storage().identity().expect("it has one");
        assert_eq!(names[0], format!("outboard:disk={}", identity.as_str()));
        assert_eq!(
            names[2..],
            ["outboard:writers=many", "outboard:fence=storage"]
        );
        assert_eq!(query(&mut raw, true).await, names, "it is open");
        let mut other = new_raw(&target).await;
        assert_eq!(query(&mut other, true).await, names, "of one client");
        drop((raw, other));
        let client = ours(&target, AccessMode::Write).await.expect("it is free");
        assert!(client.disk_identity().is_fenced);
        let found = client.disk_identity().identity.clone();
        assert_eq!(found.expect("it has one").as_str(), identity.as_str());
        assert_eq!(client.health().connections, 3);
        client.close().await;
    });
}

/// The other server has what was flushed, and is where the client goes on: this one is left at once, and without an error.
#[test]
fn a_client_whose_disk_is_lost_is_disconnected_and_finds_it_under_another_incarnation() {
    let disks = FencedDisks::new(true);
    fenced(&disks.clone(), |target| async move {
        let client = ours(&target, AccessMode::Write).await.expect("it is free");
        let first = client.disk_identity().clone();
        let data = single(vec![1; 512]);
        let written = client.write(BLOCK, data, WriteFlags::empty()).await;
        written.expect("it is open");
        disks.storage().open();
        wait_until(async || client.health().reconnects == 1).await;
        let read = client.read(BLOCK).await.expect("it is open again");
        assert_eq!(gather(&read)[0], 1, "written again");
        client.flush().await.expect("it is this server's");
        assert_eq!(disks.storage().openings(), 3);
        let other = ours(&target, AccessMode::Write).await.expect("it is open");
        let second = other.disk_identity();
        assert_eq!(second.identity, first.identity);
        assert_ne!(second.incarnation, first.incarnation);
        other.close().await;
        client.close().await;
    });
}

#[test]
fn a_client_is_not_admitted_to_a_disk_that_was_lost() {
    let disks = FencedDisks::new(false);
    fenced(&disks.clone(), |target| async move {
        let mut first = RawClient::simple(raw_address(&target)).await;
        first.assert_in_step().await;
        disks.storage().open();
        let client = ours(&target, AccessMode::Write).await.expect("it is free");
        assert!(first.is_closed().await, "its opening is over");
        assert_eq!(disks.storage().openings(), 3);
        assert_eq!(client.health().connections, 3, "all are of one opening");
        client.close().await;
    });
}

/// What would be opened again may be a disk that was made in its place.
#[test]
fn a_disk_that_is_lost_between_the_query_and_go_is_refused() {
    let disks = FencedDisks::new(false);
    fenced(&disks.clone(), |target| async move {
        let mut raw = new_raw(&target).await;
        query(&mut raw, true).await;
        disks.storage().open();
        let (kind, text) = go(&mut raw).await;
        assert_eq!(kind >> 31, 1, "an error");
        assert!(text.contains("another server has your disk"), "{text}");
        assert_eq!(disks.storage().openings(), 2);
        // It may try again.
        query(&mut raw, true).await;
        assert_eq!(go(&mut raw).await.0, 3, "NBD_REP_INFO");
        assert_eq!(disks.storage().openings(), 3);
    });
}

#[test]
fn a_request_to_a_disk_of_one_client_that_was_lost_has_no_answer() {
    let disks = FencedDisks::new(false);
    fenced(&disks.clone(), |target| async move {
        let mut raw = RawClient::simple(raw_address(&target)).await;
        raw.assert_in_step().await;
        disks.storage().open();
        raw.say(&request(Command::Flush, 0, 0).encode()).await;
        assert!(raw.is_closed().await);
    });
    // The server ends without an error: the client has its disk elsewhere.
}

#[test]
fn a_disk_that_cannot_be_opened_has_no_identity_and_go_reports_why() {
    let disks = Arc::new(FencedDisks {
        fails: true,
        ..Arc::into_inner(FencedDisks::new(true)).expect("the only one")
    });
    fenced(&disks.clone(), |target| async move {
        let mut raw = new_raw(&target).await;
        assert_eq!(query(&mut raw, true).await.len(), 2);
        let (kind, text) = go(&mut raw).await;
        assert_eq!(kind >> 31, 1, "an error");
        assert!(text.contains("no room for it"), "{text}");
        assert_eq!(disks.attempts.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_client_does_not_write_to_a_disk_that_was_made_in_the_place_of_its_own() {
    let disks = FencedDisks::new(true);
    fenced(&disks.clone(), |target| async move {
        let client = ours(&target, AccessMode::Write).await.expect("it is free");
        let data = single(vec![1; 512]);
        let written = client.write(BLOCK, data, WriteFlags::empty()).await;
        written.expect("it is open");
        let before = disks.storage();
        disks.delete();
        before.open();
        let failed = engine::clock::timeout(Duration::from_secs(10), client.flush()).await;
        failed
            .expect("it is final")
            .expect_err("it is another disk");
        let other = ours(&target, AccessMode::Write).await.expect("it is free");
        assert_ne!(
            other.disk_identity().identity,
            client.disk_identity().identity
        );
        let read = other.read(BLOCK).await.expect("it is read");
        assert_eq!(gather(&read)[0], 0, "nothing was written to it");
        other.close().await;
        drop(client);
    });
}

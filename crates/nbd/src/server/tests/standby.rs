//! Exports that stand by: two servers of one disk with a storage that fences them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::{
    BlockDevice, Errno, Extent, Fenced, Geometry, Identity, IoBufs, IoError, IoFuture, Node,
    Operation, Range, WriteFlags,
};
use nbd_proto::{AccessMode, ClientToken, Command, WriterAccess};
use testkit::{MemDisk, gather, single};
use tokio::sync::Notify;

use super::harness::{controlled, wait_until};
use super::{RawClient, request};
use crate::client::{Address, Client, ClientConfig, ClientError, Target};
use crate::server::{
    CannotOpen, ClientFuture, Control, Export, ExportDisk, Limits, Rules, StandbyDisk,
    StandbyFigures, StandbyOpening,
};

const SIZE: u64 = 1 << 20;
pub(super) const BLOCK: Range = Range::new(0, 512);

/// What several servers reach.
#[derive(Debug)]
pub(super) struct Storage {
    disk: MemDisk,
    /// The opening that may write.
    owner: AtomicU64,
    /// An opening finds by itself that it was fenced.
    notifies: bool,
    fenced: Notify,
}

impl Storage {
    pub(super) fn new(notifies: bool) -> Arc<Self> {
        Arc::new(Self {
            disk: MemDisk::new(SIZE),
            owner: AtomicU64::new(0),
            notifies,
            fenced: Notify::new(),
        })
    }

    /// Another server, or this one, opens the disk.
    pub(super) fn open(&self) -> u64 {
        let number = self.owner.fetch_add(1, Ordering::SeqCst) + 1;
        if self.notifies {
            self.fenced.notify_waiters();
        }
        number
    }

    pub(super) fn openings(&self) -> u64 {
        self.owner.load(Ordering::SeqCst)
    }

    /// Resolves when an opening finds that it was fenced.
    pub(super) async fn fenced(&self) {
        self.fenced.notified().await;
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.disk.identity()
    }
}

/// The storage as one server has it open; for reading without a number.
#[derive(Debug)]
pub(super) struct OpenedStorage {
    storage: Arc<Storage>,
    number: Option<u64>,
    geometry: Geometry,
}

impl OpenedStorage {
    pub(super) fn new(storage: &Arc<Storage>, number: Option<u64>) -> Self {
        let mut geometry = storage.disk.geometry().clone();
        geometry.read_only = number.is_none();
        Self {
            storage: storage.clone(),
            number,
            geometry,
        }
    }

    fn is_lost(&self) -> bool {
        self.number
            .is_some_and(|number| number != self.storage.openings())
    }

    /// A change or a flush, which reach the storage.
    async fn change(&self, work: IoFuture<'_, ()>) -> Result<(), IoError> {
        if self.is_lost() {
            let error = IoError::new(Errno::Io, Operation::Write, None);
            return Err(error.because(Fenced("another server has it".to_owned())));
        }
        work.await
    }
}

impl BlockDevice for OpenedStorage {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.storage.disk.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(self.change(self.storage.disk.write(range, data, flags)))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.change(self.storage.disk.flush()))
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(self.change(self.storage.disk.write_zeroes(range, flags)))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(self.change(self.storage.disk.trim(range)))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.storage.disk.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        self.storage.disk.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.storage.disk.settle()
    }
}

/// The disk of one server.
#[derive(Debug)]
struct StandbyStorage {
    storage: Arc<Storage>,
    reader: Node,
}

#[derive(Debug)]
struct StorageOpening {
    storage: Arc<Storage>,
    opened: Arc<OpenedStorage>,
    disk: Node,
}

impl StandbyDisk for StandbyStorage {
    fn reader(&self) -> &Node {
        &self.reader
    }

    fn open(&self) -> ClientFuture<'_, Result<Arc<dyn StandbyOpening>, CannotOpen>> {
        Box::pin(async {
            let number = self.storage.open();
            let opened = Arc::new(OpenedStorage::new(&self.storage, Some(number)));
            let opening: Arc<dyn StandbyOpening> = Arc::new(StorageOpening {
                storage: self.storage.clone(),
                disk: opened.clone(),
                opened,
            });
            Ok(opening)
        })
    }
}

impl StandbyOpening for StorageOpening {
    fn disk(&self) -> &Node {
        &self.disk
    }

    fn confirm(&self) -> ClientFuture<'_, Result<bool, CannotOpen>> {
        Box::pin(async { Ok(!self.opened.is_lost()) })
    }

    fn lost(&self) -> ClientFuture<'static, String> {
        let storage = self.storage.clone();
        Box::pin(async move {
            storage.fenced().await;
            "another server has it".to_owned()
        })
    }
}

/// Runs `body` while a server of `storage` stands by.
fn standing_by<F: Future>(
    storage: &Arc<Storage>,
    body: impl FnOnce(Target, Control) -> F,
) -> F::Output {
    let reader: Node = Arc::new(OpenedStorage::new(storage, None));
    let export = Export {
        name: "disk".to_owned(),
        description: String::new(),
        disk: ExportDisk::Standby(Arc::new(StandbyStorage {
            storage: storage.clone(),
            reader,
        })),
    };
    let exports = vec![(export, Rules::default())];
    controlled(exports, Limits::default(), |address, control| {
        let address = Address::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        };
        body(Target::new(address, "disk".to_owned()), control)
    })
}

pub(super) fn raw_address(target: &Target) -> std::net::SocketAddr {
    let Address::Tcp { host, port } = &target.address else {
        panic!("it is a TCP address");
    };
    (host.parse::<std::net::IpAddr>().expect("an address"), *port).into()
}

pub(super) async fn ours(target: &Target, mode: AccessMode) -> Result<Arc<Client>, ClientError> {
    let config = ClientConfig {
        connections: 3,
        reconnect_for: Duration::from_secs(5),
        read_only: mode == AccessMode::Read,
        writer: Some(WriterAccess {
            token: ClientToken::new([7; 16]),
            mode,
        }),
        ..ClientConfig::default()
    };
    Client::connect(target.clone(), config).await
}

fn standby(control: &Control) -> StandbyFigures {
    let figures = control.figures().exports[0].standby.clone();
    figures.expect("it stands by")
}

async fn write(client: &Client, value: u8) -> Result<(), IoError> {
    client
        .write(BLOCK, single(vec![value; 512]), WriteFlags::empty())
        .await
}

async fn read(client: &Client) -> u8 {
    gather(&client.read(BLOCK).await.expect("it is read"))[0]
}

#[test]
fn clients_that_only_read_take_nothing_over() {
    let storage = Storage::new(true);
    standing_by(&storage, |target, control| async move {
        let reader = ours(&target, AccessMode::Read).await.expect("it reads");
        assert_eq!(read(&reader).await, 0);
        assert!(reader.geometry().read_only);
        let mut raw = RawClient::connect(raw_address(&target)).await;
        raw.greet().await;
        // INFO describes what a client that writes gets.
        raw.option(6, b"\0\0\0\x04disk\0\0").await;
        let head = raw.take(20).await;
        let info = raw.take(usize::from(head[19])).await;
        assert_eq!(info[2..10], SIZE.to_be_bytes());
        assert_eq!(info[11] & 2, 0, "it is not read-only");
        let closed = StandbyFigures {
            is_open: false,
            takeovers: 0,
        };
        assert_eq!(standby(&control), closed);
        let writer = ours(&target, AccessMode::Write).await.expect("it is free");
        write(&writer, 1).await.expect("it is open");
        assert_eq!(read(&reader).await, 1);
        assert!(standby(&control).is_open);
        reader.close().await;
        writer.close().await;
    });
    assert_eq!(storage.openings(), 1);
}

#[test]
fn connections_of_one_client_open_the_disk_once() {
    let storage = Storage::new(true);
    standing_by(&storage, |target, control| async move {
        for _ in 0..2 {
            let client = ours(&target, AccessMode::Write).await.expect("it is free");
            assert!(client.disk_identity().is_fenced);
            assert_eq!(client.health().connections, 3);
            client.close().await;
        }
        // It stays open.
        let open = StandbyFigures {
            is_open: true,
            takeovers: 1,
        };
        assert_eq!(standby(&control), open);
    });
}

/// Other clients get the end of the connection, and no error of a flush, after which they would have to give the disk up.
#[test]
fn a_request_to_a_disk_that_was_lost_has_no_answer() {
    let storage = Storage::new(false);
    standing_by(&storage.clone(), |target, control| async move {
        let mut raw = RawClient::simple(raw_address(&target)).await;
        raw.assert_in_step().await;
        assert_eq!(storage.open(), 2, "another server takes it");
        raw.say(&request(Command::Flush, 0, 0).encode()).await;
        assert!(raw.is_closed().await);
        // This server does not know it yet, and looks.
        let mut raw = RawClient::simple(raw_address(&target)).await;
        raw.assert_in_step().await;
        assert_eq!((storage.openings(), standby(&control).takeovers), (3, 2));
    });
}

#[test]
fn clients_of_a_disk_that_was_lost_are_disconnected_and_take_it_over_again() {
    let storage = Storage::new(true);
    standing_by(&storage.clone(), |target, control| async move {
        let client = ours(&target, AccessMode::Write).await.expect("it is free");
        write(&client, 1).await.expect("it is open");
        storage.open();
        wait_until(async || client.health().reconnects == 1).await;
        // What no flush covered was written again.
        assert_eq!(read(&client).await, 1);
        write(&client, 2).await.expect("it is open again");
        client.flush().await.expect("it is this server's");
        assert_eq!((storage.openings(), standby(&control).takeovers), (3, 2));
        client.close().await;
    });
}

/// A server that does not know yet that it was fenced would answer with what was there before.
#[test]
fn a_client_is_not_admitted_to_an_opening_that_was_fenced() {
    let storage = Storage::new(false);
    standing_by(&storage.clone(), |target, control| async move {
        let mut first = RawClient::simple(raw_address(&target)).await;
        first.assert_in_step().await;
        storage.open();
        let client = ours(&target, AccessMode::Write).await.expect("it is free");
        assert_eq!(client.health().connections, 3, "all are of one opening");
        assert!(first.is_closed().await, "its opening is over");
        assert_eq!((storage.openings(), standby(&control).takeovers), (3, 2));
        client.close().await;
    });
}

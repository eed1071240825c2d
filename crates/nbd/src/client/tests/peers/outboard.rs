//! Our own server, with everything that both sides have.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, ExtentKind, Node, Range, WriteFlags};
use nodes::FileOptions;
use testkit::{MemDisk, gather, single};

use super::{SIZE, agrees_with_the_model, empty_image};
use crate::client::tests::one_connection;
use crate::client::{Address, Client, Target};
use crate::file_disk;
use crate::server::{Control, Export, Limits, ListenAddress, Listener, Server};

const MIB: u64 = 1 << 20;

/// Serves `disk` on TCP, on two cores, while `test` runs.
fn served<F: Future<Output = ()>>(
    disk: impl FnOnce() -> Node + Send,
    test: impl FnOnce(Target, Control) -> F + Send,
) {
    let config = engine::Config {
        backend: engine::BackendChoice::Auto,
        cores: 2,
    };
    let run = |handle: engine::Handle| async move {
        let export = Export {
            name: "disk".to_owned(),
            description: String::new(),
            disk: disk().into(),
        };
        let server = Server::new(vec![export], Limits::default()).unwrap();
        let control = server.control();
        let listener = Listener::tcp(([127, 0, 0, 1], 0).into()).unwrap();
        let ListenAddress::Tcp(address) = *listener.address() else {
            panic!("a TCP listener has a TCP address")
        };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let serve =
            engine::spawn(async move { server.serve(&handle, vec![listener], stopped).await });
        let address = Address::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
        };
        let target = Target::new(address, "disk".to_owned());
        test(target, control).await;
        drop(stop);
        serve.await.unwrap().unwrap();
    };
    engine::run(&config, run).unwrap();
}

#[test]
fn our_own_server_agrees_with_the_model() {
    let disk = || -> Node { Arc::new(MemDisk::new(SIZE)) };
    served(disk, |target, _| async {
        let client = Client::connect(target.clone(), one_connection())
            .await
            .unwrap();
        let health = client.health();
        assert!(health.extended && health.extents, "{health:?}");
        client.close().await;
        agrees_with_the_model(target).await;
    });
}

fn open(image: &Path) -> Node {
    Arc::new(file_disk::open(image, FileOptions::default()).unwrap())
}

#[test]
fn the_holes_of_a_file_come_through() {
    let folder = tempfile::tempdir().unwrap();
    let image = empty_image(folder.path());
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&image)
        .unwrap();
    file.write_all_at(&[7; 65_536], MIB).unwrap();
    file.sync_all().unwrap();
    served(
        || open(&image),
        |target, _| async {
            let client = Client::connect(target, one_connection()).await.unwrap();
            let extents = client.extents(Range::new(0, SIZE)).await.unwrap();
            let data = extents.iter().filter(|one| one.kind == ExtentKind::Data);
            let data: Vec<Range> = data.map(|one| one.range).collect();
            assert_eq!(data, [Range::new(MIB, 65_536)]);
            let whole = gather(&client.read(Range::new(0, SIZE)).await.unwrap());
            let sevens = whole.iter().filter(|byte| **byte == 7).count();
            assert_eq!(sevens, 65_536);
            client.close().await;
        },
    );
}

#[test]
fn a_file_that_grows_grows_for_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let image = &empty_image(folder.path());
    served(
        || open(image),
        |target, control| async move {
            let client = Client::connect(target, one_connection()).await.unwrap();
            let range = Range::new(0, 512);
            let write = client.write(range, single(vec![1; 512]), WriteFlags::empty());
            write.await.unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(image).unwrap();
            file.set_len(2 * SIZE).unwrap();
            assert_eq!(client.refresh_size().await.unwrap(), SIZE);
            let resized = control.resize("disk").await.unwrap();
            assert_eq!((resized.from, resized.to), (SIZE, 2 * SIZE));
            assert_eq!(client.refresh_size().await.unwrap(), 2 * SIZE);
            let beyond = Range::new(2 * SIZE - 512, 512);
            let write = client.write(beyond, single(vec![2; 512]), WriteFlags::FUA);
            write.await.unwrap();
            let read = client.read(range).await.unwrap();
            assert_eq!(gather(&read), vec![1; 512]);
            client.close().await;
        },
    );
}

//! Tests of reopening a remote member.
//!
//! The bug that they guard against: the array fails a member because its server hangs. The member's client keeps its
//! pending writes. The server recovers, the member is reopened and rebuilt, and only then the first client sends
//! its pending writes: old data over new, on a member that counts as in sync.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{Node, Range, WriteFlags};
use engine::clock;
use nbd::client::AccessMode;
use nbd::server::{Export, Limits, Listener, Server};
use nodes::array::Reopen;
use nodes::{Memory, Zero};
use testkit::single;

use super::super::member_reopen::{Links, MemberReopen};
use super::super::{BuildPlace, Builder};
use super::MIB;
use crate::graph::resolve;

/// Serves `disk` on a socket while `test` runs.
fn served(disk: Node, test: impl AsyncFnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let config = engine::Config {
        backend: engine::BackendChoice::Threads,
        cores: 1,
    };
    let run = async |handle: engine::Handle| {
        let export = Export {
            name: String::new(),
            description: String::new(),
            disk: disk.into(),
        };
        let server = Server::new(vec![export], Limits::default()).expect("an export");
        let listener = Listener::unix(&socket).expect("a socket");
        drop(engine::spawn(async move {
            let for_ever = std::future::pending();
            let ended = server.serve(&handle, vec![listener], for_ever).await;
            ended.expect("a server");
        }));
        test(&socket).await;
    };
    engine::run(&config, run).expect("the engine starts");
}

/// How the export on `socket` is opened as a member.
fn member(socket: &Path) -> MemberReopen {
    let text = format!("nbd+unix:///?socket={}", socket.display());
    let named = resolve(&text).expect("a disk");
    let place = BuildPlace {
        text: &text,
        read_only: false,
        kept: false,
        tables: Vec::new(),
        links: None,
    };
    let links = Links::new(Duration::from_secs(5), AccessMode::Write);
    MemberReopen::new(&named.disk, &Builder::new(false), &place, links)
}

async fn write(node: &Node) -> Result<(), block::IoError> {
    let data = single(vec![7; 4096]);
    node.write(Range::new(0, 4096), data, WriteFlags::empty())
        .await
}

#[test]
fn what_the_first_opening_had_to_send_is_never_sent_after_the_second_one() {
    served(Arc::new(Memory::new(MIB)), async |socket| {
        let member = member(socket);
        let before = clock::now();
        let first = member.reopen().await.expect("a server");
        let once = clock::now().duration_since(before);
        assert!(once < Duration::from_secs(1), "nobody knew it: {once:?}");
        write(&first).await.expect("a write");
        let before = clock::now();
        let second = member.reopen().await.expect("a server");
        let rest = clock::now().duration_since(before);
        assert!(rest >= Duration::from_secs(1), "it was left alone");
        let error = write(&first).await.expect_err("it is over");
        assert_eq!(error.errno, block::Errno::ShuttingDown);
        write(&second).await.expect("a write");
        member.sever().await;
        write(&second).await.expect_err("it is over too");
    });
}

#[test]
fn a_member_on_an_unreachable_server_is_an_error() {
    served(Arc::new(Zero::new(MIB)), async |socket| {
        let member = member(&socket.with_file_name("nowhere"));
        let error = member.reopen().await.expect_err("nobody listens");
        assert!(error.to_string().contains("nowhere"), "{error}");
    });
}

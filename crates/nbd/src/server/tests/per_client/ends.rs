//! How clients' disks are replaced, removed and closed.

use std::sync::Arc;

use testkit::{CrashDisk, Effect, Fault, FaultDisk, MemDisk};

use super::super::harness::{controlled_to_the_end, wait_until};
use super::{SIZE, client, connected, export, maker, per_client, read, say_goodbye, write};
use crate::server::{ChangeError, ExportDisk, Limits, Rules};

#[test]
fn a_new_image_is_for_new_clients_and_for_those_that_disconnected() {
    let (old, new) = (Arc::new(maker("old")), Arc::new(maker("new")));
    let (before, after) = (old.clone(), new.clone());
    per_client(
        &old,
        Rules::default(),
        Limits::default(),
        |address, control| async move {
            let mut stays = connected(address, 1).await;
            write(&mut stays, 1).await;
            let mut lost = connected(address, 2).await;
            write(&mut lost, 2).await;
            let mut leaves = connected(address, 3).await;
            write(&mut leaves, 3).await;
            drop(lost);
            say_goodbye(leaves).await;
            wait_until(async || before.closed() >= 2).await;
            control.renew("disk", after).expect("it is there");
            stays.assert_in_step().await;
            let mut more = connected(address, 1).await;
            assert_eq!(read(&mut more).await, 1, "a client has one disk");
            let mut back = connected(address, 2).await;
            assert_eq!(read(&mut back).await, 2, "its filesystem is mounted");
            let mut later = connected(address, 3).await;
            assert_eq!(read(&mut later).await, 0);
            let mut other = connected(address, 4).await;
            assert_eq!(read(&mut other).await, 0);
            for raw in [stays, more] {
                say_goodbye(raw).await;
            }
            wait_until(async || before.closed() >= 3).await;
            let mut again = connected(address, 1).await;
            assert_eq!(read(&mut again).await, 0, "it connected again");
        },
    );
    assert_eq!((old.opened(), new.opened()), (4, 3));
}

#[test]
fn a_disk_is_not_removed_under_its_client_unless_that_is_forced() {
    let maker = Arc::new(maker("a"));
    let kept = maker.clone();
    per_client(
        &maker,
        Rules::default(),
        Limits::default(),
        |address, control| async move {
            let mut raw = connected(address, 1).await;
            write(&mut raw, 1).await;
            let mut other = connected(address, 2).await;
            let refused = control
                .remove_client_disk("disk", &client(1), "a", false)
                .await;
            assert!(
                matches!(
                    refused,
                    Err(ChangeError::ClientConnected { connections: 1, .. })
                ),
                "{refused:?}"
            );
            raw.assert_in_step().await;
            let forced = control
                .remove_client_disk("disk", &client(1), "a", true)
                .await;
            forced.expect("it ends");
            assert!(raw.is_closed().await);
            other.assert_in_step().await;
            assert_eq!(kept.made(), 1);
            let mut again = connected(address, 1).await;
            assert_eq!(read(&mut again).await, 0, "it is empty");
            drop((again, other));
            kept.all_closed().await;
            let gone = control
                .remove_client_disk("disk", &client(2), "a", false)
                .await;
            gone.expect("no client is connected");
            let none = control
                .remove_client_disk("disk", &client(9), "a", false)
                .await;
            assert!(matches!(none, Err(ChangeError::NotRemoved { .. })));
        },
    );
}

#[test]
fn an_export_with_disks_of_its_clients_ends_like_any_other_and_cannot_be_measured() {
    let maker = Arc::new(maker("a"));
    let disk = Arc::new(CrashDisk::new(SIZE));
    maker.give(1, disk.clone());
    per_client(
        &maker,
        Rules::default(),
        Limits::default(),
        |address, control| async move {
            let mut raw = connected(address, 1).await;
            write(&mut raw, 9).await;
            let measured = control.resize("disk").await;
            assert!(matches!(measured, Err(ChangeError::PerClient(_))));
            control.remove("disk").await.expect("it ends");
            assert!(raw.is_closed().await);
            assert_eq!(disk.durable()[0], 9);
        },
    );
}

#[test]
fn a_stop_closes_the_disks_and_reports_one_that_could_not_be_flushed() {
    let maker = Arc::new(maker("a"));
    let fault = Fault::new(Effect::Fail(block::Errno::Io)).on(block::Operation::Flush);
    maker.give(
        1,
        FaultDisk::new(Arc::new(MemDisk::new(SIZE)), 1, vec![fault]),
    );
    let good = Arc::new(CrashDisk::new(SIZE));
    maker.give(2, good.clone());
    let exports = vec![(
        export(ExportDisk::PerClient(maker.clone())),
        Rules::default(),
    )];
    let (_, end) = controlled_to_the_end(exports, Limits::default(), |address, _| async move {
        let mut bad = connected(address, 1).await;
        write(&mut bad, 1).await;
        let mut good = connected(address, 2).await;
        write(&mut good, 2).await;
        // They are connected when the server stops.
        (bad, good)
    });
    let error = end.expect_err("not flushed").to_string();
    assert!(error.contains("disk (client 127.0.7.1)"), "{error}");
    assert_eq!(good.durable()[0], 2);
}

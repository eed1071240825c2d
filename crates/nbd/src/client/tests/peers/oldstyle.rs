//! nbdkit with the oldstyle handshake, which knows no options. Our client refused such servers.

use std::time::Duration;

use block::{BlockDevice, Range, WriteFlags};
use nbd_proto::{HandshakeFailure, HandshakeStyle, UriTls};
use testkit::{gather, requires, single};

use super::{SIZE, empty_image, start_nbdkit};
use crate::client::tests::{in_engine, one_connection};
use crate::client::{Client, ClientConfig, ClientError, Target, describe, dial, survey};

const SECOND: Duration = Duration::from_secs(1);

/// Runs `test` with nbdkit, if there is one.
fn with_oldstyle<F: Future<Output = ()>>(plugin: &[&str], test: impl FnOnce(Target) -> F) {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = [&["--oldstyle"], plugin].concat();
    let (_nbdkit, target) = start_nbdkit(folder.path(), &arguments);
    in_engine(|| test(target));
}

/// nbdkit 1.32 claims to flush, trim and write with FUA after an oldstyle handshake, and then refuses to (its server does not
/// remember what it claimed); so this disk does none of them, and the model is for `basics`.
#[test]
fn an_oldstyle_server_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let image = empty_image(folder.path());
    let file = |words: &str| format!("{words}={}", image.display());
    let read = file("pread=dd status=none skip=$4 count=$3 iflag=count_bytes,skip_bytes if");
    let write = file("pwrite=dd status=none seek=$4 conv=notrunc oflag=seek_bytes of");
    let plugin = ["eval", "get_size=echo 8M", &read, &write];
    let image = &image;
    with_oldstyle(&plugin, |target| async move {
        let client = Client::connect(target, one_connection()).await.unwrap();
        assert_eq!(client.geometry().size, SIZE);
        let ranges = [(0, 512), (4096, 100_352), (SIZE - 65_536, 65_536)];
        let ranges = ranges.map(|(offset, len)| Range::new(offset, len));
        for range in ranges {
            let bytes = vec![7; range.len_usize()];
            let written = client.write(range, single(bytes.clone()), WriteFlags::empty());
            written.await.unwrap();
            assert!(gather(&client.read(range).await.unwrap()) == bytes);
        }
        client.close().await;
        let written: u64 = ranges.iter().map(|range| range.len).sum();
        let sevens = std::fs::read(image).unwrap();
        let sevens = sevens.iter().filter(|byte| **byte == 7).count() as u64;
        assert_eq!(sevens, written);
    });
}

#[test]
fn an_oldstyle_server_is_listed_and_described() {
    with_oldstyle(&["pattern", "8M"], |target| async move {
        let survey = survey(&target, SECOND).await.unwrap();
        assert_eq!(survey.exports.len(), 1);
        assert_eq!(survey.exports[0].listed.name, "");
        let described = survey.exports[0].described.as_ref().unwrap();
        assert_eq!(described.export.size, SIZE);
        assert_eq!(described.style, HandshakeStyle::Oldstyle);
        assert!(!described.structured && !described.extended && !described.tls);
        assert!(described.contexts.is_empty());
    });
}

/// As for the kernel's own client.
#[test]
fn a_connection_to_an_oldstyle_server_is_handed_out() {
    with_oldstyle(&["memory", "8M"], |target| async move {
        let dialed = dial(&target, false, None, SECOND).await.unwrap();
        assert_eq!(dialed.export().size, SIZE);
        assert!(!dialed.structured());
        dialed.into_std_fd().unwrap();
    });
}

#[test]
fn an_oldstyle_server_is_refused_where_a_name_or_tls_is_requested() {
    with_oldstyle(&["memory", "8M"], |target| async move {
        let named = Target {
            export: "disk".to_owned(),
            ..target.clone()
        };
        let error = describe(&named, SECOND).await.unwrap_err();
        let ClientError::Handshake { failure, .. } = &error else {
            panic!("{error}");
        };
        let expected = HandshakeFailure::OldstyleExport("disk".to_owned());
        assert_eq!(*failure, expected);
        // No authority is needed to learn that there is no TLS.
        let secret = Target {
            tls: Some(UriTls {
                verify_peer: false,
                ..UriTls::default()
            }),
            ..target
        };
        let refused = Client::connect(secret, ClientConfig::default()).await;
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains("oldstyle NBD handshake, which has none"),
            "{error}"
        );
    });
}

//! URIs of volumes.

use std::path::PathBuf;

use crate::snapshot_name::{SnapshotUri, VolumeUri};
use crate::uri::{BucketUri, BucketUriError};

fn parse(text: &str) -> Result<BucketUri, BucketUriError> {
    text.parse()
}

#[test]
fn uris_of_volumes_are_parsed_and_printed() {
    let s3 = BucketUri::S3 {
        bucket: "disks".to_owned(),
        path: "lab/root.1".to_owned(),
    };
    assert_eq!(parse("s3://disks/lab/root.1"), Ok(s3.clone()));
    assert_eq!(parse("S3://disks/lab/root.1/"), Ok(s3.clone()));
    assert_eq!(s3.to_string(), "s3://disks/lab/root.1");
    let file = BucketUri::File(PathBuf::from("/srv/vol"));
    assert_eq!(parse("file:///srv/vol/"), Ok(file.clone()));
    assert_eq!(file.to_string(), "file:///srv/vol");
}

#[test]
fn what_is_no_uri_of_a_volume_is_refused_by_name() {
    let name = |name: &str| Err(BucketUriError::Name(name.to_owned()));
    assert_eq!(parse("s3://disks"), Err(BucketUriError::NoVolume));
    assert_eq!(parse("s3://disks/"), Err(BucketUriError::NoVolume));
    assert_eq!(parse("s3:///vol"), Err(BucketUriError::NoBucket));
    assert_eq!(parse("file://nas/vol"), Err(BucketUriError::Host));
    assert_eq!(parse("file:///"), Err(BucketUriError::NoVolume));
    assert_eq!(
        parse("s3://key:secret@disks/vol"),
        Err(BucketUriError::Extra('@'))
    );
    assert_eq!(parse("s3://disks/vol?x"), Err(BucketUriError::Extra('?')));
    assert_eq!(parse("s3://disks/a/../b"), name(".."));
    assert_eq!(parse("s3://disks/a//b"), name(""));
    assert_eq!(parse("s3://disks/a b"), name("a b"));
    assert!(matches!(
        parse("gs://disks/vol"),
        Err(BucketUriError::Scheme(_))
    ));
    assert!(matches!(parse("vol"), Err(BucketUriError::Scheme(_))));
}

#[test]
fn a_refused_uri_does_not_repeat_its_credentials() {
    for text in [
        "s3://key:secret@disks/vol",
        "s3://key:secret@disks",
        "s3://key:secret/secret@disks",
        "s3://key:secret@disks/vol@snapshot",
    ] {
        let error = parse(text).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        let error = text.parse::<VolumeUri>().unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn a_snapshot_is_named_behind_its_volume() {
    let parsed = |text: &str| text.parse::<VolumeUri>();
    for text in ["s3://disks/lab/root@before-1.2", "file:///srv/vol@a"] {
        let uri = parsed(text).unwrap();
        assert_eq!(uri.to_string(), text);
        assert_eq!(
            uri.snapshot.unwrap().as_str(),
            text.rsplit('@').next().unwrap()
        );
        let refused = BucketUriError::NotAVolume(text.to_owned());
        assert_eq!(parse(text), Err(refused), "where a volume is needed");
    }
    let volume = parsed("s3://disks/lab/root").unwrap();
    assert_eq!(volume.snapshot, None);
    for name in ["", "a@b", ".a", "a b", "a%20", &"x".repeat(101)] {
        let error = parsed(&format!("s3://disks/lab/root@{name}")).unwrap_err();
        assert!(matches!(error, BucketUriError::Snapshot(_)), "{error}");
    }
}

#[test]
fn a_snapshot_is_parsed_where_only_one_will_do() {
    let text = "s3://disks/lab/root@golden";
    let snapshot: SnapshotUri = text.parse().unwrap();
    assert_eq!(snapshot.volume, parse("s3://disks/lab/root").unwrap());
    assert_eq!(snapshot.name.as_str(), "golden");
    assert_eq!(snapshot.to_string(), text);
    let text = "s3://disks/lab/root";
    let error = text.parse::<SnapshotUri>().unwrap_err();
    assert_eq!(error, BucketUriError::NotASnapshot(text.to_owned()));
}

#[test]
fn a_volume_has_a_folder_in_its_store() {
    assert_eq!(parse("file:///srv/vol").unwrap().folder(), "srv/vol");
    assert_eq!(parse("s3://disks/lab/root").unwrap().folder(), "lab/root");
}

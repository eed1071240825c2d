//! URIs of volumes.

use std::path::PathBuf;

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
    let error = parse("s3://key:secret@disks/vol").unwrap_err();
    assert!(!error.to_string().contains("secret"));
}

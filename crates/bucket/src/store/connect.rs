//! [`StoreAccess`]: a store by its URI, and the names of a volume in it.
//!
//! # Invariants
//!
//! * Credentials come from the environment (`AWS_…`), and nothing prints what they are put into.
//! * The index and the data of a volume are used by what `unlock` returned, which has the key of an encrypted one. A key that is not the
//!   volume's is refused before anything is written, or a server fenced.
//! * An endpoint without TLS is used only where `AWS_ENDPOINT_URL` names one; certificates are always verified.
//! * What a folder of this machine acknowledges was synced to its medium.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::{Certificate, ClientOptions, ObjectStore, RetryConfig};

use super::conflict_filter::ConflictFilter;
use super::request_meter::{RequestCounts, RequestMeter};
use crate::data_codec::{DataCodec, ObjectCodec};
use crate::error::BucketError;
use crate::format::{DataObject, Names, Origin, SealedKey, VolumeHeader};
use crate::seal::{DataKey, VolumeKey};
use crate::uri::BucketUri;

/// How long one request may take: an object of 8 MiB over a slow line.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What the client itself retries; beyond that its callers do.
const CLIENT_RETRIES: usize = 2;
/// The variable that names a file of certificates, as the AWS command line has it.
const CA_VARIABLE: &str = "AWS_CA_BUNDLE";

/// How a store is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreOptions {
    /// A file of certificates in PEM that are trusted besides those of the system; else that of `AWS_CA_BUNDLE`.
    pub ca_file: Option<PathBuf>,
    /// The file with the key of an encrypted volume.
    pub key_file: Option<PathBuf>,
}

/// A store, and the names of a volume in it.
#[derive(Clone)]
pub(crate) struct StoreAccess {
    /// The volume, for messages.
    pub(crate) uri: String,
    /// What the URIs of volumes in the store begin with; behind it is the folder of the volume.
    pub(crate) base: String,
    /// The store.
    pub(crate) store: Arc<dyn ObjectStore>,
    /// What was requested of it.
    pub(crate) requests: Arc<RequestCounts>,
    /// The objects of the volume.
    pub(crate) names: Names,
    /// The key of the user.
    pub(crate) key: Option<Arc<VolumeKey>>,
    /// How data is encoded, of a volume that was unlocked.
    codec: Option<Arc<DataCodec>>,
}

impl fmt::Debug for StoreAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreAccess").field(&self.uri).finish()
    }
}

impl StoreAccess {
    /// The store of `uri`; no request is made. `creates`: a folder of this machine is made if it is not there.
    ///
    /// # Errors
    /// A configuration that is incomplete, a folder that is not there.
    pub(crate) fn connect(
        uri: &BucketUri,
        options: &StoreOptions,
        creates: bool,
    ) -> Result<Self, BucketError> {
        let text = uri.to_string();
        let root = uri.folder();
        let (store, base) = match uri {
            BucketUri::File(path) => (local(path, &text, creates)?, "file:///".to_owned()),
            BucketUri::S3 { bucket, .. } => {
                (s3(bucket, &text, options)?, format!("s3://{bucket}/"))
            }
        };
        let key = options.key_file.as_deref().map(read_key).transpose()?;
        Ok(Self::new(text, base, store, root).with_key(key))
    }

    /// The store with its requests counted, and the names of the volume in `root`.
    pub(crate) fn new(
        uri: String,
        base: String,
        store: Arc<dyn ObjectStore>,
        root: String,
    ) -> Self {
        let requests = Arc::new(RequestCounts::default());
        Self {
            uri,
            base,
            store: Arc::new(RequestMeter::new(store, requests.clone())),
            requests,
            names: Names::new(root),
            key: None,
            codec: None,
        }
    }

    /// The same, with another key, or without one.
    pub(crate) fn with_key(&self, key: Option<VolumeKey>) -> Self {
        Self {
            key: key.map(Arc::new),
            codec: None,
            ..self.clone()
        }
    }

    /// The same, with the objects of this volume, to read and write its index and data.
    ///
    /// # Errors
    /// The key of an encrypted volume is missing or another one, or there is one of a volume that is not.
    pub(crate) fn unlock(&self, header: &VolumeHeader) -> Result<Self, BucketError> {
        let uri = || self.uri.clone();
        let key = match (&self.key, &header.sealed_key) {
            (None, None) => None,
            (None, Some(_)) => return Err(BucketError::NoKey { uri: uri() }),
            (Some(_), None) => return Err(BucketError::NotEncrypted { uri: uri() }),
            (Some(key), Some(sealed)) => {
                let opened = key.open(sealed, header.id, &header.authenticated());
                Some(opened.map_err(|_| BucketError::WrongKey { uri: uri() })?)
            }
        };
        let codec = DataCodec {
            compression: header.compression,
            key,
        };
        Ok(Self {
            codec: Some(Arc::new(codec)),
            ..self.of(header)
        })
    }

    /// How data of the volume is encoded.
    ///
    /// # Panics
    /// The volume was not unlocked.
    pub(crate) fn codec(&self) -> &DataCodec {
        let codec = self.codec.as_ref();
        codec.expect("a volume is unlocked before its index or data is used")
    }

    /// The codec of a data object.
    pub(crate) fn object_codec(&self, object: DataObject) -> ObjectCodec {
        self.codec().object(|| self.names.identity(object))
    }

    /// The header with its data key sealed by the key of the user; `header` as it is if there is no data key.
    pub(crate) fn seal_header(
        &self,
        header: VolumeHeader,
        data_key: Option<&DataKey>,
    ) -> VolumeHeader {
        let Some((key, data_key)) = self.key.as_deref().zip(data_key) else {
            return header;
        };
        let mut sealed = VolumeHeader {
            sealed_key: Some(SealedKey([0; SealedKey::LEN])),
            ..header
        };
        sealed.sealed_key = Some(key.seal(data_key, sealed.id, &sealed.authenticated()));
        sealed
    }

    /// The same, with the objects of this volume.
    pub(crate) fn of(&self, header: &VolumeHeader) -> Self {
        Self {
            names: self.names.of(header),
            codec: None,
            ..self.clone()
        }
    }

    /// Another folder of the store.
    pub(crate) fn at(&self, folder: &str) -> Self {
        Self {
            uri: self.uri_of(folder),
            names: Names::new(folder.to_owned()),
            codec: None,
            ..self.clone()
        }
    }

    /// The volume of which a clone has data objects.
    pub(crate) fn of_origin(&self, origin: &Origin) -> Self {
        Self {
            names: Names::of_origin(origin),
            ..self.at(&origin.path)
        }
    }

    /// The URI of a volume in the same store.
    pub(crate) fn uri_of(&self, folder: &str) -> String {
        format!("{}{folder}", self.base)
    }
}

/// The key in a file.
pub(crate) fn read_key(path: &Path) -> Result<VolumeKey, BucketError> {
    VolumeKey::read(path).map_err(|source| BucketError::KeyFile {
        path: path.to_owned(),
        source,
    })
}

/// Whether two volumes are in one store, so that each can have objects of the other.
#[must_use]
pub fn shares_store(one: &BucketUri, other: &BucketUri) -> bool {
    match (one, other) {
        (BucketUri::S3 { bucket, .. }, BucketUri::S3 { bucket: other, .. }) => bucket == other,
        (BucketUri::File(one), BucketUri::File(other)) => device_of(one) == device_of(other),
        _ => false,
    }
}

/// The filesystem that a path is on, or will be: an object is copied as a link, which is possible within one only.
fn device_of(path: &Path) -> Option<u64> {
    let mut existing = path.ancestors().map(std::fs::metadata);
    existing.find_map(|metadata| Some(metadata.ok()?.dev()))
}

/// All folders of this machine: the volume's own is part of the names, so that a clone finds its origin's.
fn local(path: &Path, uri: &str, creates: bool) -> Result<Arc<dyn ObjectStore>, BucketError> {
    let refused = |why: String| BucketError::Folder {
        uri: uri.to_owned(),
        why,
    };
    if creates {
        let made = std::fs::create_dir_all(path);
        made.map_err(|error| refused(format!("it cannot be made: {error}")))?;
    } else if !path.is_dir() {
        let uri = uri.to_owned();
        return Err(BucketError::NoVolume { uri });
    }
    Ok(Arc::new(LocalFileSystem::new().with_fsync(true)))
}

fn s3(
    bucket: &str,
    uri: &str,
    options: &StoreOptions,
) -> Result<Arc<dyn ObjectStore>, BucketError> {
    install_tls();
    let endpoint = std::env::var("AWS_ENDPOINT_URL").unwrap_or_default();
    let mut client = ClientOptions::new()
        .with_timeout(REQUEST_TIMEOUT)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_allow_http(endpoint.starts_with("http://"));
    let from_env = || std::env::var_os(CA_VARIABLE).map(PathBuf::from);
    if let Some(path) = options.ca_file.clone().or_else(from_env) {
        for certificate in certificates(&path)? {
            client = client.with_root_certificate(certificate);
        }
    }
    let retries = RetryConfig {
        max_retries: CLIENT_RETRIES,
        ..RetryConfig::default()
    };
    let store = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_client_options(client)
        .with_retry(retries)
        .build();
    let store = store.map_err(|error| BucketError::Config {
        uri: uri.to_owned(),
        why: error.to_string(),
    })?;
    Ok(Arc::new(ConflictFilter(Arc::new(store))))
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, BucketError> {
    let refused = |why: String| BucketError::Certificates {
        path: path.to_owned(),
        why,
    };
    let pem = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| refused(error.to_string()))?;
    match found.is_empty() {
        true => Err(refused("it has none".to_owned())),
        false => Ok(found),
    }
}

/// The client has no cryptography of its own; that of the rest of this program is the process's.
pub(crate) fn install_tls() {
    // Another one that is installed is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
}

//! [`OverlayRecord`]: the metadata next to an overlay: its client, and its image. Pure.
//!
//! ```text
//! {"version":1,"export":"root","client":{"address":"10.0.0.1"},
//!  "image":{"id":"…","disk":"/srv/golden.img","size":1073741824},"made":1763776000,"last_seen":…}
//! ```
//!
//! # Invariants
//!
//! * A record of another version is refused: what it means is not known.
//! * An overlay is opened only over the image that its record names: over another one its changes
//!   would be pieces of a filesystem that is not there.

use nbd::server::ClientName;
use serde::{Deserialize, Serialize};

/// The version that is written and understood.
const VERSION: u32 = 1;

/// The metadata next to an overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OverlayRecord {
    version: u32,
    /// The export it was made for.
    pub(super) export: String,
    /// The client that it belongs to.
    pub(super) client: ClientName,
    /// What it changes.
    pub(super) image: ImageRecord,
    /// When it was made, seconds since 1970.
    pub(super) made: u64,
    /// When its client last came or went, seconds since 1970.
    pub(super) last_seen: u64,
}

/// An image, as overlays remember it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImageRecord {
    /// Its number: see `image.rs`.
    pub(super) id: String,
    /// The disk as it was written.
    pub(super) disk: String,
    /// Bytes.
    pub(super) size: u64,
}

/// Why a record cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    /// It is not what this program writes.
    #[error("it is no record of an overlay: {0}")]
    Broken(String),
    /// Another program wrote it.
    #[error("it is of version {0}; this program knows version {VERSION}")]
    Version(u64),
    /// It was moved or renamed.
    #[error("it says that it is client {0}'s")]
    OtherClient(ClientName),
    /// It was moved.
    #[error("it changes another image, {} (number {})", .0.disk, .0.id)]
    OtherImage(ImageRecord),
}

impl OverlayRecord {
    pub(super) fn new(export: String, client: ClientName, image: ImageRecord, now: u64) -> Self {
        Self {
            version: VERSION,
            export,
            client,
            image,
            made: now,
            last_seen: now,
        }
    }

    /// Reads one.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct RecordVersion {
            version: u64,
        }
        let broken = |e: serde_json::Error| RecordError::Broken(e.to_string());
        let RecordVersion { version } = serde_json::from_slice(bytes).map_err(broken)?;
        if version != u64::from(VERSION) {
            return Err(RecordError::Version(version));
        }
        serde_json::from_slice(bytes).map_err(broken)
    }

    /// As it is written.
    pub(super) fn text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("texts and numbers");
        text.push('\n');
        text
    }

    /// Whether it belongs to `client` and the image of that number.
    pub(super) fn check(&self, client: &ClientName, image: &str) -> Result<(), RecordError> {
        if self.client != *client {
            return Err(RecordError::OtherClient(self.client.clone()));
        }
        if self.image.id != image {
            return Err(RecordError::OtherImage(self.image.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> OverlayRecord {
        let image = ImageRecord {
            id: "0123".to_owned(),
            disk: "golden \"1\".img".to_owned(),
            size: 1 << 30,
        };
        let client = ClientName::Address([10, 0, 0, 1].into());
        OverlayRecord::new("root".to_owned(), client, image, 1_763_776_000)
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = record();
        assert_eq!(
            OverlayRecord::parse(record.text().as_bytes()),
            Ok(record.clone())
        );
        assert_eq!(record.check(&record.client, "0123"), Ok(()));
    }

    #[test]
    fn other_versions_clients_and_images_are_refused() {
        let record = record();
        let newer = record.text().replace("\"version\":1", "\"version\":2");
        assert_eq!(
            OverlayRecord::parse(newer.as_bytes()),
            Err(RecordError::Version(2))
        );
        let other = ClientName::Certificate("10.0.0.1".to_owned());
        assert!(matches!(
            record.check(&other, "0123"),
            Err(RecordError::OtherClient(_))
        ));
        assert!(matches!(
            record.check(&record.client, "4567"),
            Err(RecordError::OtherImage(_))
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..300usize) {
            drop(OverlayRecord::parse(&bytes));
            let text = record().text();
            drop(OverlayRecord::parse(&text.as_bytes()[..cut.min(text.len())]));
        }
    }
}

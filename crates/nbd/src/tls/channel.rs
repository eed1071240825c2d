//! [`Channel`]: a TLS connection after its handshake. Pure: records in, content out, and back.
//!
//! # Invariants
//!
//! * A key seals at most [`REKEY_AFTER`] records (RFC 8446, section 5.5), then both sides take the
//!   next. TLS 1.2 has no next key: where the cipher has a limit, the connection ends there.
//! * No connection is renegotiated: under TLS 1.2 a client passes over the request for it (RFC 5246, section 7.4.1.1),
//!   at most [`EMPTY_RECORDS_MAX`] in a row, and a server ends the connection.
//! * Control messages of the peer cost a fixed amount of memory: one answer to its key
//!   updates is owed at most, session tickets are passed over, and [`EMPTY_RECORDS_MAX`] records in a row
//!   may carry no data.
//! * Data ends with the peer's `close_notify` and nothing else.

use nbd_proto::TlsVersion;
use rustls::ConnectionTrafficSecrets;
use rustls::kernel::KernelConnection;

use super::record::{ContentType, RecordError, RecordOpener, RecordSealer};
use super::record_format::{OVERHEAD_TLS13, RecordFormat};

/// Records sealed with one key. AES-GCM stays safe for 2^24.5 full ones.
pub(super) const REKEY_AFTER: u64 = 1 << 24;
/// Records without data that may follow each other.
const EMPTY_RECORDS_MAX: u32 = 32;
/// Longest message between data; a session ticket is the longest that comes.
const MESSAGE_MAX: usize = 16 << 10;
/// Bytes of a key update as a record.
pub(super) const KEY_UPDATE_LEN: usize = OVERHEAD_TLS13 + KEY_UPDATE.len();

const HELLO_REQUEST_TYPE: u8 = 0;
const SESSION_TICKET_TYPE: u8 = 4;
const KEY_UPDATE_TYPE: u8 = 24;
/// `KeyUpdate` with `update_not_requested` (RFC 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [KEY_UPDATE_TYPE, 0, 0, 1, 0];

/// Why a connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ChannelError {
    #[error("the other side sent {0}")]
    Record(#[from] RecordError),
    #[error("the other side ended TLS: {}", alert_text(*.0))]
    Alert(u8),
    #[error("the other side sent a TLS message that does not belong here (type {0})")]
    Message(u8),
    #[error("the other side sent {EMPTY_RECORDS_MAX} TLS records without data")]
    EmptyRecords,
    #[error("the key could not be changed")]
    Key,
    #[error("TLS 1.2 cannot change the key, which has sealed as many records as it may")]
    KeyLimit,
}

/// What the next key comes from.
pub(super) trait TrafficKeys: Send + Sync {
    fn next_to_send(&mut self) -> Option<(u64, ConnectionTrafficSecrets)>;
    fn next_to_receive(&mut self) -> Option<(u64, ConnectionTrafficSecrets)>;
}

impl<Data: Send + Sync> TrafficKeys for KernelConnection<Data> {
    fn next_to_send(&mut self) -> Option<(u64, ConnectionTrafficSecrets)> {
        self.update_tx_secret().ok()
    }

    fn next_to_receive(&mut self) -> Option<(u64, ConnectionTrafficSecrets)> {
        self.update_rx_secret().ok()
    }
}

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Server,
    Client,
}

/// Both directions of a connection.
pub(super) struct Channel {
    side: Endpoint,
    sealer: RecordSealer,
    opener: RecordOpener,
    keys: Box<dyn TrafficKeys>,
    rekey_after: u64,
    /// A key update goes out before the next data.
    owes_update: bool,
    /// The beginning of a message that goes on in the next record.
    message: Vec<u8>,
    /// Records without data since the last one with.
    empty_records: u32,
    closed: bool,
}

impl Channel {
    /// A channel that changes keys after so many records ([`REKEY_AFTER`], but for tests).
    pub(super) fn new(
        side: Endpoint,
        sealer: RecordSealer,
        opener: RecordOpener,
        keys: Box<dyn TrafficKeys>,
        rekey_after: u64,
    ) -> Self {
        Self {
            side,
            sealer,
            opener,
            keys,
            rekey_after,
            owes_update: false,
            message: Vec::new(),
            empty_records: 0,
            closed: false,
        }
    }

    /// Whether the peer has sent `close_notify`.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Opens a whole record. Its data; empty if it carried none.
    pub(super) fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<&'a [u8], ChannelError> {
        let (content, bytes) = self.opener.open(record)?;
        if content == ContentType::Data && self.message.is_empty() {
            if !bytes.is_empty() {
                self.empty_records = 0;
                return Ok(bytes);
            }
        } else {
            self.take_control(content, bytes)?;
        }
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(ChannelError::EmptyRecords);
        }
        Ok(&[])
    }

    fn take_control(&mut self, content: ContentType, bytes: &[u8]) -> Result<(), ChannelError> {
        match (content, bytes) {
            (ContentType::Alert, &[_, 0]) => self.closed = true,
            (ContentType::Alert, &[_, alert]) => return Err(ChannelError::Alert(alert)),
            (ContentType::Handshake, [_, ..]) => {
                self.message.extend_from_slice(bytes);
                return self.take_messages();
            }
            _ => return Err(RecordError::ContentType.into()),
        }
        Ok(())
    }

    fn take_messages(&mut self) -> Result<(), ChannelError> {
        let has_key_update = self.format().has_key_update();
        while let [kind, a, b, c, ref rest @ ..] = self.message[..] {
            let len = u32::from_be_bytes([0, a, b, c]) as usize;
            if len > MESSAGE_MAX {
                return Err(ChannelError::Message(kind));
            }
            if rest.len() < len {
                return Ok(());
            }
            match (kind, &rest[..len]) {
                // What follows would be under the new key already.
                (KEY_UPDATE_TYPE, &[wish @ (0 | 1)]) if has_key_update && rest.len() == len => {
                    let (sequence, secrets) =
                        self.keys.next_to_receive().ok_or(ChannelError::Key)?;
                    self.opener = RecordOpener::new(TlsVersion::Tls13, sequence, &secrets)
                        .ok_or(ChannelError::Key)?;
                    self.owes_update |= wish == 1;
                }
                // Connections are few and long: none is resumed.
                (SESSION_TICKET_TYPE, _) if has_key_update && self.side == Endpoint::Client => {}
                (HELLO_REQUEST_TYPE, []) if !has_key_update && self.side == Endpoint::Client => {}
                _ => return Err(ChannelError::Message(kind)),
            }
            self.message.drain(..4 + len);
        }
        if self.message.is_empty() {
            self.message = Vec::new();
        }
        Ok(())
    }

    /// The length of the record that `bytes` begin with, as [`RecordFormat::wire_len`] has it.
    pub(super) fn wire_len(&self, bytes: &[u8]) -> Result<Option<usize>, RecordError> {
        self.format().wire_len(bytes)
    }

    /// How records look, in both directions.
    pub(super) const fn format(&self) -> RecordFormat {
        self.sealer.format()
    }

    /// Writes to `place` ([`KEY_UPDATE_LEN`] bytes) what must come before data, and says how long
    /// that is.
    pub(super) fn prepare(&mut self, place: &mut [u8]) -> Result<usize, ChannelError> {
        if !self.owes_update && self.sealer.sequence() < self.rekey_after {
            return Ok(0);
        }
        let format = self.format();
        if !format.has_key_update() {
            return match format.has_key_limit() {
                true => Err(ChannelError::KeyLimit),
                false => Ok(0),
            };
        }
        let update = self.seal_short(ContentType::Handshake, &KEY_UPDATE);
        place.copy_from_slice(&update);
        let (sequence, secrets) = self.keys.next_to_send().ok_or(ChannelError::Key)?;
        self.sealer =
            RecordSealer::new(TlsVersion::Tls13, sequence, &secrets).ok_or(ChannelError::Key)?;
        self.owes_update = false;
        Ok(KEY_UPDATE_LEN)
    }

    /// Seals data that lies in `record` as [`RecordSealer::seal`] requires it.
    pub(super) fn seal(&mut self, record: &mut [u8]) {
        self.sealer.seal(ContentType::Data, record);
    }

    /// The last record: a goodbye, or what `broken` is called.
    pub(super) fn seal_end(&mut self, broken: Option<ChannelError>) -> Vec<u8> {
        let alert = match broken {
            None => [1, 0],
            Some(ChannelError::Record(RecordError::Tag)) => [2, 20],
            Some(ChannelError::Record(RecordError::Length(_))) => [2, 22],
            Some(ChannelError::Key) => [2, 80],
            Some(_) => [2, 10],
        };
        self.seal_short(ContentType::Alert, &alert)
    }

    fn seal_short(&mut self, kind: ContentType, content: &[u8]) -> Vec<u8> {
        let format = self.format();
        let mut record = vec![0; format.overhead() + content.len()];
        record[format.content_at()..][..content.len()].copy_from_slice(content);
        self.sealer.seal(kind, &mut record);
        record
    }
}

/// The names of alerts that users can do something about (RFC 8446, section 6.2; those of TLS 1.2 have the same numbers).
pub(super) fn alert_text(alert: u8) -> String {
    let text = match alert {
        42 => "it cannot use the certificate it was shown",
        43 => "it does not take this kind of certificate",
        44 => "the certificate it was shown is revoked",
        45 => "the certificate it was shown has expired",
        46 | 48 => "the certificate it was shown is not signed by an authority it knows",
        49 => "access denied",
        70 => "it does not take this version of TLS (tls-minimum=1.2 allows an older one)",
        116 => "it wants a certificate, and was shown none",
        other => return format!("alert {other}"),
    };
    text.to_owned()
}

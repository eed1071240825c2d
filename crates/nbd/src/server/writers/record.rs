//! [`Record`]: the last writer as bytes; `docs/formats/writer.md` has every one of them. Pure.

use nbd_proto::ClientToken;
use ring::digest::{SHA256, digest};

/// Longest record, bytes.
pub(super) const RECORD_MAX: u64 = 64 << 10;
const HEAD: &str = "outboard writer ";
const VERSION: u32 = 1;
/// Longest name of a client, bytes.
const LABEL_MAX: usize = 256;

/// A client that was taken over from, its successor and the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) token: ClientToken,
    pub(super) label: String,
    pub(super) since: u64,
}

/// What is durable of the writers of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Counts the writers, from 1.
    pub(super) generation: u64,
    /// The last of them; `None` only where nothing is recorded.
    pub(super) token: Option<ClientToken>,
    /// Its name for people.
    pub(super) label: String,
    /// Since when, seconds since 1970.
    pub(super) since: u64,
    /// The clients that are refused, the latest last.
    pub(super) fences: Vec<Fence>,
}

impl Record {
    pub(super) fn encode(&self) -> String {
        let token = self
            .token
            .map(|token| token.to_string())
            .unwrap_or_default();
        let mut text = format!(
            "{HEAD}{VERSION}\ngeneration={}\nwriter={token} {} {}\n",
            self.generation,
            self.since,
            sayable(&self.label)
        );
        for Fence {
            token,
            label,
            since,
        } in &self.fences
        {
            text.push_str(&format!("fenced={token} {since} {}\n", sayable(label)));
        }
        let sum = checksum(&text);
        format!("{text}sha256={sum}\n")
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let damaged = || "it is damaged".to_owned();
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let version = text.strip_prefix(HEAD).and_then(|rest| rest.lines().next());
        let version: u32 = version.and_then(|v| v.parse().ok()).ok_or_else(damaged)?;
        if version > VERSION {
            return Err(format!(
                "it is of version {version}, and this outboard knows version {VERSION}"
            ));
        }
        let (body, sum) = text.rsplit_once("sha256=").ok_or_else(damaged)?;
        if sum.strip_suffix('\n') != Some(checksum(body).as_str()) {
            return Err("its checksum does not match".to_owned());
        }
        parse(body).ok_or_else(damaged)
    }
}

fn parse(body: &str) -> Option<Record> {
    let mut lines = body.lines().skip(1);
    let generation = lines.next()?.strip_prefix("generation=")?.parse().ok()?;
    let writer = entry(lines.next()?.strip_prefix("writer=")?)?;
    let fences = lines.map(|line| entry(line.strip_prefix("fenced=")?));
    Some(Record {
        generation,
        token: Some(writer.token),
        label: writer.label,
        since: writer.since,
        fences: fences.collect::<Option<_>>()?,
    })
}

/// `TOKEN SECONDS LABEL`
fn entry(text: &str) -> Option<Fence> {
    let (token, rest) = text.split_once(' ')?;
    let (since, label) = rest.split_once(' ')?;
    Some(Fence {
        token: token.parse().ok()?,
        label: label.to_owned(),
        since: since.parse().ok()?,
    })
}

/// A name that fits on its line.
fn sayable(label: &str) -> String {
    let bounded = &label[..label.floor_char_boundary(LABEL_MAX)];
    let shown = |c: char| if c.is_control() { '?' } else { c };
    bounded.chars().map(shown).collect()
}

fn checksum(text: &str) -> String {
    let sum = digest(&SHA256, text.as_bytes());
    sum.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

//! [`Identity`]: what distinguishes a disk from every other one.

use std::fmt;

use ring::digest::{Context, SHA256};

/// Bytes of a digest that an identity keeps: two disks in 2^64 share one by chance.
const DIGEST_LEN: usize = 16;

/// What distinguishes a disk from every other one, and stays the same while it is that disk, also over
/// restarts: a kind, a colon, and printable characters without a space.
///
/// Two nodes with the same identity have the same bytes, as far as their media can be distinguished: a copy of an
/// image is another file and so another disk; two views of one array are one disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity(String);

impl Identity {
    /// A disk of this kind that these facts distinguish from all others of it.
    #[must_use]
    pub fn of(kind: &str, facts: &[&[u8]]) -> Self {
        let mut digest = Context::new(&SHA256);
        for fact in facts {
            // With their lengths, so that no two lists of facts are the same bytes.
            digest.update(&(fact.len() as u64).to_le_bytes());
            digest.update(fact);
        }
        let digest = digest.finish();
        let bytes = &digest.as_ref()[..DIGEST_LEN];
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("{kind}:{hex}"))
    }

    /// A disk that is composed of others in this way. `None` where that is not known of one of them.
    #[must_use]
    pub fn composed(
        kind: &str,
        parameters: &str,
        parts: impl IntoIterator<Item = Option<Self>>,
    ) -> Option<Self> {
        let parts: Vec<Self> = parts.into_iter().collect::<Option<_>>()?;
        let mut facts = vec![parameters.as_bytes()];
        facts.extend(parts.iter().map(|part| part.0.as_bytes()));
        Some(Self::of(kind, &facts))
    }

    /// As another program says it: 1 to 255 printable ASCII characters without a space.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_valid =
            (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| Self(text.to_owned()))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

//! [`Stage`]: the stations between a program and its disk.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A stage of the I/O path, the program's end first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// What makes the load: fio, or our own load.
    Generator,
    /// How much is requested at once.
    Queue,
    /// This machine's memory, which answers in place of the disk.
    Cache,
    /// What this machine's kernel reads before it is requested.
    Readahead,
    /// The processor time of this end: filesystem, device, client.
    Client,
    /// Encryption, on either end.
    Cipher,
    /// The requests in flight: waiting that costs no stage any time.
    Protocol,
    /// What the bytes go over.
    Wire,
    /// The processor time of the other end.
    Server,
    /// What keeps the bytes.
    Disk,
    /// What makes written bytes durable: a disk that takes writes at once may take long to flush them.
    Flush,
}

impl Stage {
    /// All of them, in their order on the path.
    pub const ALL: [Self; 11] = [
        Self::Generator,
        Self::Queue,
        Self::Cache,
        Self::Readahead,
        Self::Client,
        Self::Cipher,
        Self::Protocol,
        Self::Wire,
        Self::Server,
        Self::Disk,
        Self::Flush,
    ];

    /// In one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Queue => "queue",
            Self::Cache => "cache",
            Self::Readahead => "readahead",
            Self::Client => "client",
            Self::Cipher => "cipher",
            Self::Protocol => "protocol",
            Self::Wire => "wire",
            Self::Server => "server",
            Self::Disk => "disk",
            Self::Flush => "flush",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

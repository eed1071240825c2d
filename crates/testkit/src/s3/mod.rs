//! S3 servers of two makes on loopback, and a proxy before them that fails requests.

mod proxy;
mod server;

use std::time::Duration;

pub use self::proxy::{FaultyProxy, RequestCounts, RequestFaults};
pub use self::server::{S3Make, S3Server};

/// The access key of each server.
pub const KEY: &str = "test-key";
/// Its secret, which no program prints.
pub const SECRET: &str = "not-to-be-printed-0815";
/// The bucket of each server.
pub const BUCKET: &str = "disks";

/// When a server counts as stuck.
const LIMIT: Duration = Duration::from_secs(180);

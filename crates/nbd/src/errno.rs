//! The one table between [`Errno`] and [`WireError`]. Total both ways, and one to one: a full disk
//! is a full disk all the way to the client.

use block::Errno;
use nbd_proto::WireError;

/// What a disk's error is on the wire.
#[must_use]
pub const fn to_wire(errno: Errno) -> WireError {
    match errno {
        Errno::Io => WireError::Io,
        Errno::NoSpace => WireError::NoSpace,
        Errno::Invalid => WireError::Invalid,
        Errno::NotSupported => WireError::NotSupported,
        Errno::NotPermitted => WireError::Permission,
        Errno::OutOfMemory => WireError::NoMemory,
        Errno::Overflow => WireError::Overflow,
        Errno::ShuttingDown => WireError::Shutdown,
    }
}

/// What an error on the wire is for a disk.
#[must_use]
pub const fn from_wire(error: WireError) -> Errno {
    match error {
        WireError::Io => Errno::Io,
        WireError::NoSpace => Errno::NoSpace,
        WireError::Invalid => Errno::Invalid,
        WireError::NotSupported => Errno::NotSupported,
        WireError::Permission => Errno::NotPermitted,
        WireError::NoMemory => Errno::OutOfMemory,
        WireError::Overflow => Errno::Overflow,
        WireError::Shutdown => Errno::ShuttingDown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_survives_the_way_there_and_back() {
        for errno in Errno::ALL {
            assert_eq!(from_wire(to_wire(errno)), errno);
        }
        for error in WireError::ALL {
            assert_eq!(to_wire(from_wire(error)), error);
        }
    }
}

//! Superblocks of md with the checksum that they should have, so that what lies behind it is met too.

use nodes::array::format::{Problem, Superblock, Version, decode};

/// What a superblock says, and its bytes, with the checksum put right.
pub fn decode_mended(
    version: Version,
    at: u64,
    bytes: &[u8],
) -> Result<Option<(Superblock, Vec<u8>)>, Problem> {
    let mut mended = bytes.to_vec();
    let mut decoded = decode(version, at, &mended);
    if let Err(Problem::Checksum { computed, .. }) = decoded {
        let (place, sum) = match version {
            // The first byte of the magic number gives the byte order.
            Version::V0_90 { .. } if bytes[0] == 0xa9 => (152, computed.to_be_bytes()),
            Version::V0_90 { .. } => (152, computed.to_le_bytes()),
            _ => (216, computed.to_le_bytes()),
        };
        mended[place..place + 4].copy_from_slice(&sum);
        decoded = decode(version, at, &mended);
        assert!(!matches!(decoded, Err(Problem::Checksum { .. })));
    }
    Ok(decoded?.map(|found| (found, mended)))
}

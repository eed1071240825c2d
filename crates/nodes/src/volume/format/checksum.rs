//! LVM2's checksum: CRC-32 with an initial value of LVM's own and without the final inversion.

use crc::{Algorithm, CRC_32_ISO_HDLC, Crc};

const LVM: Crc<u32> = Crc::<u32>::new(&Algorithm {
    // `INITIAL_CRC` of LVM2's lib/misc/crc.h; `crc` takes it with its bits in the polynomial's order.
    init: 0xf597_a6cf_u32.reverse_bits(),
    xorout: 0,
    ..CRC_32_ISO_HDLC
});

/// The checksum of `bytes`.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    LVM.checksum(bytes)
}

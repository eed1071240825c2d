//! LVM2's checksum: CRC-32 with a beginning of its own.

const INITIAL: u32 = 0xf597_a6cf;
const POLYNOMIAL: u32 = 0xedb8_8320;
/// The step of each value of a byte's low half.
const TABLE: [u32; 16] = table();

const fn table() -> [u32; 16] {
    let mut table = [0; 16];
    let mut index = 0_u32;
    while index < 16 {
        let (mut value, mut bit) = (index, 0);
        while bit < 4 {
            value = value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[index as usize] = value;
        index += 1;
    }
    table
}

/// The checksum of `bytes`.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(INITIAL, |sum, byte| {
        let sum = sum ^ u32::from(*byte);
        let sum = sum >> 4 ^ TABLE[(sum & 15) as usize];
        sum >> 4 ^ TABLE[(sum & 15) as usize]
    })
}

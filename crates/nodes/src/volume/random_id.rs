//! Ids of groups, volumes and physical volumes.

use rustix::rand::{GetRandomFlags, getrandom};

/// What LVM makes new ids of: its alphabet has `!` and `#`, too, which LVM1 could not read.
const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ID_LEN: usize = 32;
/// Behind how many characters LVM prints a dash.
const DASHES: [usize; 6] = [6, 10, 14, 18, 22, 26];

/// A random id as LVM prints it: `CPN7xD-txTn-TwdH-Axeg-eY89-h0d7-mGlpM3`.
///
/// # Panics
/// If the kernel has no random bytes.
#[must_use]
pub fn random_id() -> String {
    let mut characters = Vec::with_capacity(ID_LEN);
    while characters.len() < ID_LEN {
        let mut bytes = [0; ID_LEN];
        let filled = getrandom(&mut bytes, GetRandomFlags::empty());
        assert_eq!(filled, Ok(bytes.len()), "the kernel has random bytes");
        // 248 is a multiple of 62: each character is as probable as the others.
        let even = bytes.iter().filter(|byte| **byte < 248);
        characters
            .extend(even.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])));
    }
    let mut id = String::with_capacity(ID_LEN + DASHES.len());
    for (index, character) in characters.into_iter().take(ID_LEN).enumerate() {
        if DASHES.contains(&index) {
            id.push('-');
        }
        id.push(character);
    }
    id
}

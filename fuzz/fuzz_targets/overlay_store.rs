//! Any exceptions, and any header, as the store of an overlay. What is opened must read as a second, simple
//! reading of the format says, without a change of the store; and what is written to it then must be there when it
//! is opened again, with everything that was there before.
#![no_main]

use std::sync::Arc;

use block::{BlockDevice, Node, Range, WriteFlags};
use libfuzzer_sys::fuzz_target;
use nodes::{Overlay, OverlayOptions};
use testkit::{MemDisk, block_on, gather, pattern, single};

/// Chunks of the base and of the store; the base's last one is not whole.
const BASE_CHUNKS: usize = 48;
const STORE_CHUNKS: usize = 150;
const SECTOR: usize = 512;

/// The header is made of the input's first bytes.
const ANY_HEADER: u8 = 0x80;

const READ_ONLY: OverlayOptions = OverlayOptions {
    chunk: 4096,
    size_max: None,
    read_only: true,
    create: false,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (how, bytes) = input;
    let world = World::new(how, bytes);
    block_on(world.judge(bytes));
});

struct World {
    chunk: usize,
    base: Vec<u8>,
    store: Vec<u8>,
}

impl World {
    fn new(how: u8, bytes: &[u8]) -> Self {
        let chunk = SECTOR << (how & 3);
        let filled = |chunks: usize, first: usize| -> Vec<u8> {
            let byte = |at: usize| ((at / chunk + first) % 251) as u8 + 1;
            (0..chunks * chunk).map(byte).collect()
        };
        let mut base = filled(BASE_CHUNKS, 0);
        base.truncate(base.len() - chunk / SECTOR / 2 * SECTOR);
        let mut store = filled(STORE_CHUNKS, 100);
        store[..chunk].fill(0);
        store[..4].copy_from_slice(b"SnAp");
        for (at, number) in [(4, 1), (8, 1), (12, chunk / SECTOR)] {
            store[at] = u8::try_from(number).expect("small");
        }
        let mut exceptions = bytes.chunks_exact(2);
        if how & ANY_HEADER != 0 {
            let (header, rest) = bytes.split_at(bytes.len().min(16));
            store[..header.len()].copy_from_slice(header);
            exceptions = rest.chunks_exact(2);
        }
        let per_table = chunk / 16;
        for table in (1..STORE_CHUNKS).step_by(per_table + 1) {
            let place = &mut store[table * chunk..(table + 1) * chunk];
            place.fill(0);
            for (entry, pair) in place.chunks_exact_mut(16).zip(&mut exceptions) {
                (entry[0], entry[8]) = (pair[0], pair[1]);
                // Some numbers are far out.
                entry[5] = u8::from(pair[0] == 0xfe);
                entry[15] = u8::from(pair[1] == 0xfe);
            }
        }
        Self { chunk, base, store }
    }

    /// What the overlay holds, by a reading of the format that trusts it.
    fn expected(&self) -> Vec<u8> {
        let mut all = self.base.clone();
        let chunk = self.chunk;
        let tables = (1..STORE_CHUNKS).step_by(chunk / 16 + 1);
        let entries =
            tables.flat_map(|table| self.store[table * chunk..][..chunk].chunks_exact(16));
        for entry in entries {
            let (old, new) = (usize::from(entry[0]), usize::from(entry[8]));
            if entry[8..] == [0; 8] {
                break;
            }
            let to = old * chunk..((old + 1) * chunk).min(all.len());
            let len = to.len();
            all[to].copy_from_slice(&self.store[new * chunk..][..len]);
        }
        all
    }

    async fn judge(&self, bytes: &[u8]) {
        let base: Node = Arc::new(MemDisk::from_bytes(self.base.clone()));
        let store = Arc::new(MemDisk::from_bytes(self.store.clone()));
        let opened = Overlay::over(base.clone(), store.clone(), READ_ONLY).await;
        let is_good = match opened {
            Ok(overlay) => {
                assert!(read(&overlay).await == self.expected());
                true
            }
            Err(error) => {
                let _ = error.to_string();
                false
            }
        };
        assert!(store.snapshot() == self.store, "it was opened for reading");
        let options = OverlayOptions {
            read_only: false,
            ..READ_ONLY
        };
        let Ok(overlay) = Overlay::over(base.clone(), store.clone(), options).await else {
            return;
        };
        assert!(is_good, "what is written can be read");
        let mut expected = self.expected();
        for (number, place) in (0..).zip(bytes.chunks_exact(2).take(20)) {
            let start = usize::from(place[0]) * SECTOR % expected.len() / SECTOR * SECTOR;
            let len = (usize::from(place[1] % 9) * SECTOR).min(expected.len() - start);
            let range = Range::new(start as u64, len as u64);
            let data = pattern(number, range);
            let written = overlay.write(range, single(data.clone()), WriteFlags::empty());
            if written.await.is_ok() {
                expected[start..start + len].copy_from_slice(&data);
            }
        }
        assert!(read(&overlay).await == expected);
        overlay.flush().await.expect("memory");
        drop(overlay);
        let again = Overlay::over(base, store, READ_ONLY).await;
        assert!(read(&again.expect("it was written well")).await == expected);
    }
}

async fn read(overlay: &Overlay) -> Vec<u8> {
    let whole = Range::new(0, overlay.geometry().size);
    gather(&overlay.read(whole).await.expect("memory"))
}

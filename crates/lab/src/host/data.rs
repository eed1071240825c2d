//! What is in a test file: whether all of it was written, and whether it compresses.

use std::fs::OpenOptions;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::checks::data::{DataFacts, bits_per_byte};
use crate::units::Bytes;

/// Pieces of the file that are looked at, spread over it.
const PIECES: u64 = 16;
/// Of each so many bytes.
const PIECE: usize = 4096;
/// Stretches of data that are counted; a file in more pieces is not understood.
const STRETCHES_MAX: usize = 100_000;

/// Looks at the first `size` bytes of `path`; none where it cannot be read.
#[must_use]
pub fn look(path: &Path, size: Bytes) -> Option<DataFacts> {
    let file = OpenOptions::new().read(true).open(path).ok()?;
    // Before anything is read: pages in memory of what was never written are taken for data.
    let written = written(&file, size.0);
    let mut sample = Vec::with_capacity(PIECE * 16);
    let mut piece = [0u8; PIECE];
    for index in 0..PIECES {
        let offset = size.0 / PIECES * index;
        let count = rustix::io::pread(&file, &mut piece[..], offset).ok()?;
        sample.extend_from_slice(&piece[..count]);
    }
    Some(DataFacts {
        size,
        written,
        bits: bits_per_byte(&sample),
    })
}

/// Bytes that are data and neither holes nor allocated and never written. None where the filesystem
/// does not report; one that takes everything for data reports its whole size.
fn written(file: &std::fs::File, size: u64) -> Option<Bytes> {
    let (mut offset, mut sum) = (0, 0);
    for _ in 0..STRETCHES_MAX {
        let data = match seek(file, SeekFrom::Data(offset)) {
            Ok(data) if data < size => data,
            Ok(_) | Err(Errno::NXIO) => return Some(Bytes(sum)),
            Err(_) => return None,
        };
        let hole = seek(file, SeekFrom::Hole(data)).ok()?.min(size);
        sum += hole - data;
        offset = hole;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::checks::data::check;
    use crate::units::MIB;

    const SIZE: Bytes = Bytes(4 * MIB);

    fn file(fill: impl FnOnce(&mut std::fs::File)) -> Option<DataFacts> {
        let below = std::env::current_exe().unwrap();
        let mut file = tempfile::NamedTempFile::new_in(below.parent().unwrap()).unwrap();
        fill(file.as_file_mut());
        file.as_file().sync_all().unwrap();
        look(file.path(), SIZE)
    }

    #[test]
    fn random_data_is_good_zeroes_and_fallocated_files_are_not() {
        let mut rng = crate::stats::Rng::new(1);
        let random: Vec<u8> = (0..SIZE.0 / 8)
            .flat_map(|_| rng.next().to_le_bytes())
            .collect();
        let good = file(|file| file.write_all(&random).unwrap()).unwrap();
        assert_eq!((check(&good), good.written), (None, Some(SIZE)));
        let zeroes = file(|file| file.write_all(&vec![0; random.len()]).unwrap()).unwrap();
        assert!(check(&zeroes).unwrap().text.contains("one byte repeated"));
        let sparse = file(|file| file.set_len(SIZE.0).unwrap()).unwrap();
        assert!(
            check(&sparse)
                .unwrap()
                .text
                .starts_with("only 0 B of the 4 MiB")
        );
        let reserved = file(|file| {
            rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, SIZE.0).unwrap();
        })
        .unwrap();
        // Not every filesystem distinguishes what was allocated from what was written.
        if reserved.written == Some(SIZE) {
            eprintln!("skipped: this filesystem takes allocated for written");
            return;
        }
        assert!(
            check(&reserved)
                .unwrap()
                .text
                .starts_with("only 0 B of the 4 MiB")
        );
    }

    #[test]
    fn a_file_that_is_not_there_reports_nothing() {
        assert_eq!(look(Path::new("/no/such/file"), SIZE), None);
    }
}

//! A file that changes its size while it is open.

use block::{BlockDevice, Range};
use testkit::{gather, pattern, single};

use super::{File, READ_ONLY, WRITABLE, image, write};
use crate::test_runtime::on_each_backend;

const SIZE: u64 = 64 << 10;

#[test]
fn a_file_that_grew_is_measured_as_another_node_under_the_same_lock() {
    on_each_backend(|| async {
        let folder = tempfile::tempdir().unwrap();
        let path = image(folder.path(), SIZE);
        let old = File::open(&path, WRITABLE).await.unwrap();
        assert!(old.revalidate().await.unwrap().is_none());
        let grow = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        grow.set_len(2 * SIZE).unwrap();
        let new = old.revalidate().await.unwrap().expect("another size");
        assert_eq!(old.geometry().size, SIZE, "a node keeps its geometry");
        assert_eq!(new.geometry().size, 2 * SIZE);
        let behind = Range::new(SIZE, 4096);
        let data = single(pattern(7, behind));
        let flags = block::WriteFlags::empty();
        new.write(behind, data, flags).await.unwrap();
        write(&old, Range::new(0, 512), 3).await.unwrap();
        let seen = gather(&new.read(Range::new(0, 512)).await.unwrap());
        assert_eq!(seen, pattern(3, Range::new(0, 512)), "one file, two nodes");
        drop(old);
        assert!(
            File::open(&path, READ_ONLY).await.is_err(),
            "the lock is still there"
        );
        drop(new);
        assert!(File::open(&path, READ_ONLY).await.is_ok());
    });
}

#[test]
fn each_byte_counts() {
    on_each_backend(|| async {
        let folder = tempfile::tempdir().unwrap();
        let path = image(folder.path(), SIZE);
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let grow = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        grow.set_len(SIZE + 511).unwrap();
        let new = disk.revalidate().await.unwrap().expect("another size");
        assert_eq!(new.geometry().size, SIZE + 511);
    });
}

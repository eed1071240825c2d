//! Tests of `error`.

use block::{BlockDevice, Errno, ExtentKind, Range, TryIo, WriteFlags};
use testkit::{block_on, single};

use super::ErrorDisk;

#[test]
fn every_request_fails_but_a_flush() {
    let disk = ErrorDisk::new(8192);
    let range = Range::new(4096, 512);
    let errno = |result: Result<(), block::IoError>| result.map_err(|error| error.errno);
    block_on(async {
        let flags = WriteFlags::empty();
        assert_eq!(disk.read(range).await.unwrap_err().errno, Errno::Io);
        let write = disk.write(range, single(vec![0; 512]), flags).await;
        assert_eq!(errno(write), Err(Errno::Io));
        assert_eq!(errno(disk.write_zeroes(range, flags).await), Err(Errno::Io));
        assert_eq!(errno(disk.trim(range).await), Err(Errno::Io));
        assert_eq!(errno(disk.flush().await), Ok(()));
        assert_eq!(errno(disk.settle().await), Ok(()));
        assert_eq!(disk.try_read(range, &mut [0; 512]), TryIo::WouldBlock);
        assert_eq!(disk.try_write(range, &[0; 512]), TryIo::WouldBlock);
    });
}

#[test]
fn its_extents_are_data() {
    let range = Range::new(512, 4096);
    let extents = block_on(ErrorDisk::new(8192).extents(range)).unwrap();
    assert_eq!(extents.len(), 1);
    assert_eq!(
        (extents[0].range, extents[0].kind),
        (range, ExtentKind::Data)
    );
}

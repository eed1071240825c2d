//! [`RandomDelayDisk`]: a disk that completes requests at once or later.

use std::sync::Mutex;
use std::time::Duration;

use block::{BlockDevice, FileRegion, IoBufs, IoFuture, Node, Range, TryIo, WriteFlags};

use super::super::Dice;

/// A disk that answers at once or later, as the dice say.
#[derive(Debug)]
pub(super) struct RandomDelayDisk {
    child: Node,
    dice: Mutex<Dice>,
}

impl RandomDelayDisk {
    pub(super) fn new(child: Node, dice: Dice) -> Self {
        let dice = Mutex::new(dice);
        Self { child, dice }
    }

    fn roll(&self, max: u64) -> u64 {
        self.dice.lock().expect("no panic").below(max)
    }

    async fn dawdle(&self) {
        match self.roll(6) {
            0 => engine::clock::sleep(Duration::from_micros(self.roll(3000))).await,
            1 | 2 => tokio::task::yield_now().await,
            _ => {}
        }
    }
}

impl BlockDevice for RandomDelayDisk {
    testkit::forward!(child: geometry, write_zeroes, trim, extents, identity, settle);

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            self.dawdle().await;
            self.child.read(range).await
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.dawdle().await;
            self.child.write(range, data, flags).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.dawdle().await;
            self.child.flush().await
        })
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        if self.roll(3) == 0 {
            return TryIo::WouldBlock;
        }
        self.child.try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        if self.roll(4) == 0 {
            return TryIo::WouldBlock;
        }
        self.child.try_write(range, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        if self.roll(2) == 0 {
            return None;
        }
        self.child.file_region(range)
    }
}

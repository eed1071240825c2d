//! [`forward!`](crate::forward!): the methods of a disk of tests that are those of the disk below it.
//!
//! # Invariants
//!
//! * A disk names each method that it hands on: one that the contract gets later is not handed on unseen.

/// Within `impl BlockDevice`: hands these methods to the disk in a field, as in `forward!(child: read, flush);`.
#[macro_export]
macro_rules! forward {
    ($below:tt: $($method:ident),+ $(,)?) => { $($crate::forward!(@$method $below);)+ };
    (@geometry $below:tt) => {
        fn geometry(&self) -> &::block::Geometry {
            self.$below.geometry()
        }
    };
    (@read $below:tt) => {
        fn read(&self, range: ::block::Range) -> ::block::IoFuture<'_, ::block::IoBufs> {
            self.$below.read(range)
        }
    };
    (@write $below:tt) => {
        fn write(
            &self,
            range: ::block::Range,
            data: ::block::IoBufs,
            flags: ::block::WriteFlags,
        ) -> ::block::IoFuture<'_, ()> {
            self.$below.write(range, data, flags)
        }
    };
    (@flush $below:tt) => {
        fn flush(&self) -> ::block::IoFuture<'_, ()> {
            self.$below.flush()
        }
    };
    (@write_zeroes $below:tt) => {
        fn write_zeroes(
            &self,
            range: ::block::Range,
            flags: ::block::WriteFlags,
        ) -> ::block::IoFuture<'_, ()> {
            self.$below.write_zeroes(range, flags)
        }
    };
    (@trim $below:tt) => {
        fn trim(&self, range: ::block::Range) -> ::block::IoFuture<'_, ()> {
            self.$below.trim(range)
        }
    };
    (@extents $below:tt) => {
        fn extents(&self, range: ::block::Range) -> ::block::IoFuture<'_, Vec<::block::Extent>> {
            self.$below.extents(range)
        }
    };
    (@identity $below:tt) => {
        fn identity(&self) -> Option<::block::Identity> {
            self.$below.identity()
        }
    };
    (@settle $below:tt) => {
        fn settle(&self) -> ::block::IoFuture<'_, ()> {
            self.$below.settle()
        }
    };
    (@try_read $below:tt) => {
        fn try_read(&self, range: ::block::Range, into: &mut [u8]) -> ::block::TryIo {
            self.$below.try_read(range, into)
        }
    };
    (@try_write $below:tt) => {
        fn try_write(&self, range: ::block::Range, data: &[u8]) -> ::block::TryIo {
            self.$below.try_write(range, data)
        }
    };
}

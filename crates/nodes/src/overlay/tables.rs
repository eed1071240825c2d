//! How exceptions become durable: what a flush writes, in which order.
//!
//! ```text
//! prepare    zeroes into table k+1, …            before a write that needs it is answered
//! commit 1   tables k+1 … m, all but the first   no table before them is full yet: no reader reaches them
//!        2   flush                               the data, and those tables
//!        3   table k, durably                    from here on all of it is seen
//! ```
//!
//! # Invariants
//!
//! * An exception is listed only once its data is durable, and a table becomes full only once the
//!   next one is.
//! * A table's bytes are written by one task at a time. If that was abandoned, the store settles
//!   before the next table is written: an old table never lands on a new one.
//! * After a commit that was abandoned the disk may list more than is known here, so that tables which
//!   no reader should see are reached: the next commit flushes the data first of all.
//! * After a failure nothing more is listed, and every flush fails.

use block::{Errno, IoError, Operation, Range, TryIo, WriteFlags};
use futures_util::stream::{self, TryStreamExt};

use super::Overlay;
use super::map::Exception;
use super::plan::Tail;
use crate::guard::flush;
use crate::zeroes::zeroes;

/// Tables that are written at once.
const TABLES_IN_FLIGHT: usize = 16;
/// What a power cut leaves whole, and so what is written of a header that changes, bytes.
const HEADER_WRITE_LEN: u64 = 512;
/// Largest table that is prepared on the fast path, bytes.
const PREPARE_NOW_MAX: u64 = 64 * 1024;

/// The tables, and whether a write of one was abandoned.
#[derive(Debug)]
pub(super) struct Tables {
    tail: Tail,
    /// A write of a table may still land.
    in_doubt: bool,
    /// The disk may list more than `tail` says.
    ahead: bool,
}

impl Tables {
    pub(super) const fn new(tail: Tail) -> Self {
        Self {
            tail,
            in_doubt: false,
            ahead: false,
        }
    }
}

/// Why an overlay flushes no more.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    errno: Errno,
    why: String,
}

impl Overlay {
    /// Makes everything durable that was answered before.
    pub(super) async fn make_durable(&self) -> Result<(), IoError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let result = self.list_all().await;
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }

    /// Makes every exception durable that was published before. Unlike [`Self::make_durable`] it
    /// does not cover data that was written in place. Callers that wait share one commit.
    pub(crate) async fn make_listed(&self) -> Result<(), IoError> {
        let published = self.state().published();
        if self.state().is_durable(published) {
            return Ok(());
        }
        let mut tables = self.tables.lock().await;
        if self.state().is_durable(published) {
            return Ok(());
        }
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let result = self.list_fresh(&mut tables).await;
        if let Err(error) = &result {
            self.fail(error);
        }
        result.map(drop)
    }

    async fn list_all(&self) -> Result<(), IoError> {
        if self.state().fresh().is_empty() {
            return flush(&self.store).await;
        }
        let mut tables = self.tables.lock().await;
        // Another flush may have failed while this one waited.
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let listed = self.list_fresh(&mut tables).await?;
        drop(tables);
        if listed {
            return Ok(());
        }
        flush(&self.store).await
    }

    /// Lists what was published, durably; false: there is nothing of that.
    async fn list_fresh(&self, tables: &mut Tables) -> Result<bool, IoError> {
        self.calm(tables).await?;
        let added = self.state().fresh().to_vec();
        if added.is_empty() {
            return Ok(false);
        }
        if tables.ahead {
            flush(&self.store).await?;
        }
        (tables.in_doubt, tables.ahead) = (true, true);
        self.list(&tables.tail, &added).await?;
        (tables.in_doubt, tables.ahead) = (false, false);
        tables.tail.advance(&added);
        self.state().committed(added.len());
        Ok(true)
    }

    /// Writes the tables that list `added`.
    async fn list(&self, tail: &Tail, added: &[Exception]) -> Result<(), IoError> {
        let mut images = tail.tables(added);
        let first = images.next();
        stream::iter(images.map(Ok))
            .try_for_each_concurrent(TABLES_IN_FLIGHT, async |(index, table)| {
                self.write_table(index, table, WriteFlags::empty()).await
            })
            .await?;
        flush(&self.store).await?;
        let Some((index, table)) = first else {
            return Ok(());
        };
        if self.store.geometry().fua.any() {
            return self.write_table(index, table, WriteFlags::FUA).await;
        }
        self.write_table(index, table, WriteFlags::empty()).await?;
        flush(&self.store).await
    }

    async fn write_table(
        &self,
        index: u64,
        table: Vec<u8>,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let data = std::iter::once(table.into()).collect();
        self.store.write(self.table_range(index), data, flags).await
    }

    fn table_range(&self, index: u64) -> Range {
        let chunk = self.layout.chunk();
        Range::new(self.layout.table(index) * chunk, chunk)
    }

    /// Waits for a table that may still be on its way.
    async fn calm(&self, tables: &mut Tables) -> Result<(), IoError> {
        if tables.in_doubt {
            self.store.settle().await?;
            tables.in_doubt = false;
        }
        Ok(())
    }

    /// Writes the last table again, without what a torn write left behind its end.
    pub(super) async fn tidy(&self) -> Result<(), IoError> {
        let mut tables = self.tables.lock().await;
        tables.in_doubt = true;
        let table = tables.tail.table().to_vec();
        let index = tables.tail.index();
        self.write_table(index, table, WriteFlags::empty()).await?;
        flush(&self.store).await?;
        tables.in_doubt = false;
        Ok(())
    }

    /// Writes into the header, durably, that the store is not to be used any more. Nothing is listed
    /// afterwards.
    pub(crate) async fn mark_invalid(&self) -> Result<(), IoError> {
        let tables = self.tables.lock().await;
        let why = Failure {
            errno: Errno::Io,
            why: "the store was marked invalid".to_owned(),
        };
        // An earlier failure stays the reason.
        self.failure.get_or_init(|| why);
        let geometry = self.store.geometry();
        let len = HEADER_WRITE_LEN.max(geometry.block_size.into());
        let mut header = vec![0; Range::new(0, len).len_usize()];
        let fields = self.layout.invalid_header();
        header[..fields.len()].copy_from_slice(&fields);
        let data = std::iter::once(header.into()).collect();
        let plain = WriteFlags::empty();
        self.store.write(Range::new(0, len), data, plain).await?;
        let flushed = flush(&self.store).await;
        drop(tables);
        flushed
    }

    /// Makes room for `count` tables: zeroes that need no new space when they are written over.
    pub(super) async fn prepare(&self, count: u64) -> Result<(), IoError> {
        let mut tables = self.tables.lock().await;
        self.calm(&mut tables).await?;
        let prepared = self.state().tables_prepared();
        tables.in_doubt = true;
        for index in prepared..count {
            let range = self.table_range(index);
            let data = zeroes(range.len_usize());
            self.store.write(range, data, WriteFlags::empty()).await?;
        }
        tables.in_doubt = false;
        self.state().prepared(count);
        Ok(())
    }

    /// The same on the fast path.
    pub(super) fn try_prepare(&self, count: u64) -> TryIo {
        let Ok(tables) = self.tables.try_lock() else {
            return TryIo::WouldBlock;
        };
        let prepared = self.state().tables_prepared();
        let chunk = self.layout.chunk();
        let small = chunk.saturating_mul(count.saturating_sub(prepared)) <= PREPARE_NOW_MAX;
        if tables.in_doubt || !small {
            return TryIo::WouldBlock;
        }
        for index in prepared..count {
            let range = self.table_range(index);
            for zeroes in zeroes(range.len_usize()) {
                if self.store.try_write(range, &zeroes) == TryIo::WouldBlock {
                    return TryIo::WouldBlock;
                }
            }
        }
        self.state().prepared(count);
        TryIo::Done
    }

    /// What a flush answers after one has failed.
    fn failure(&self) -> Option<IoError> {
        let Failure { errno, why } = self.failure.get()?;
        let why = format!("an earlier flush of the overlay failed: {why}");
        Some(IoError::new(*errno, Operation::Flush, None).because(why))
    }

    fn fail(&self, error: &IoError) {
        let failure = Failure {
            errno: error.errno,
            why: error.to_string(),
        };
        if self.failure.set(failure).is_ok() {
            tracing::error!(
                "{}: {error}; every later flush fails until the overlay is opened again, and what \
                 was written since the last one may be lost then",
                self.name
            );
        }
    }
}

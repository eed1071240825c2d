//! Runs of another store, copied into this one with new numbers.
//!
//! Invariant: a run comes whole or not at all; the other store is left as it is.

use std::path::Path;

use rusqlite::{Connection, Transaction, params};

use super::{RunId, Store};
use crate::LabError;
use crate::checks::Finding;

/// What the other store is called while it is read.
const OTHER: &str = "other";

/// What belongs to run `?2` of the other store and is run `?1` here; cells have other numbers here, by `?3`.
const PARTS: [&str; 4] = [
    "INSERT INTO command (run, purpose, line)
     SELECT ?1, purpose, line FROM other.command WHERE run = ?2 AND ?3 >= 0 ORDER BY rowid",
    "INSERT INTO cell (id, run, block, position, workload, target, started_ns, elapsed_ns, headline,
                       outcome, evidence, raw)
     SELECT id + ?3, ?1, block, position, workload, target, started_ns, elapsed_ns, headline, outcome,
            evidence, raw FROM other.cell WHERE run = ?2 ORDER BY id",
    "INSERT INTO sample (run, machine, at_ns, sensor, item, value)
     SELECT ?1, machine, at_ns, sensor, item, value FROM other.sample
     WHERE run = ?2 AND ?3 >= 0 ORDER BY rowid",
    "INSERT INTO finding (run, cell, check_name, level, text, body)
     SELECT ?1, cell + ?3, check_name, level, text, body FROM other.finding
     WHERE run = ?2 ORDER BY rowid",
];

impl Store {
    /// Copies every run of the store at `other`, the earliest first, and gives their numbers here. Each
    /// gets `finding` besides its own, which says where it was made.
    ///
    /// # Errors
    /// [`LabError::DamagedStore`] and the like, about either of the two.
    pub fn adopt(&mut self, other: &Path, finding: &Finding) -> Result<Vec<RunId>, LabError> {
        // Opened for itself first, so that it has our schema.
        let runs = Self::open(other)?.runs()?;
        let attach = format!("ATTACH DATABASE ? AS {OTHER}");
        let path = other.to_string_lossy();
        self.connection
            .execute(&attach, params![path])
            .map_err(|error| self.wrap(&error))?;
        let copied = copied(
            &mut self.connection,
            runs.iter().rev().map(|run| run.id),
            finding,
        );
        let detached = self.connection.execute_batch("DETACH DATABASE other");
        let copied = copied.map_err(|error| self.wrap(&error))?;
        detached.map_err(|error| self.wrap(&error))?;
        Ok(copied)
    }
}

fn copied(
    connection: &mut Connection,
    runs: impl Iterator<Item = RunId>,
    finding: &Finding,
) -> rusqlite::Result<Vec<RunId>> {
    let transaction = connection.transaction()?;
    let mut adopted = Vec::new();
    for run in runs {
        let own = copy(&transaction, run)?;
        super::write::insert_finding(&transaction, own, None, finding)?;
        adopted.push(own);
    }
    transaction.commit()?;
    Ok(adopted)
}

fn copy(transaction: &Transaction<'_>, run: RunId) -> rusqlite::Result<RunId> {
    transaction.execute(
        "INSERT INTO run (plan, plan_name, seed, started_unix_ms, elapsed_ns, status, manifest)
         SELECT plan, plan_name, seed, started_unix_ms, elapsed_ns, status, manifest
         FROM other.run WHERE id = ?",
        [run.0],
    )?;
    let own = RunId(transaction.last_insert_rowid());
    let last: i64 =
        transaction.query_row("SELECT coalesce(max(id), 0) FROM main.cell", [], |row| {
            row.get(0)
        })?;
    for part in PARTS {
        transaction.execute(part, params![own.0, run.0, last])?;
    }
    Ok(own)
}

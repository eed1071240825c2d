//! Reading runs back.

use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};
use serde::de::DeserializeOwned;

use super::{Cell, CommandLine, Manifest, RunId, RunLine, RunRecord, Store};
use crate::LabError;
use crate::checks::Finding;
use crate::host::TargetPlace;
use crate::plan::Plan;
use crate::sensors::Sample;
use crate::units::Nanos;

impl Store {
    /// Every run, latest first.
    ///
    /// # Errors
    /// [`LabError::DamagedStore`] when a row cannot be read, here and in every function of this type.
    pub fn runs(&self) -> Result<Vec<RunLine>, LabError> {
        self.sql(|connection| {
            connection
                .prepare(
                    "SELECT id, plan_name, manifest, started_unix_ms, status, \
                     (SELECT count(*) FROM cell WHERE cell.run = run.id) FROM run ORDER BY id DESC",
                )?
                .query_map([], run_line)?
                .collect()
        })
    }

    /// The latest runs, at most so many, and where their targets are; latest first.
    ///
    /// # Errors
    /// [`LabError::DamagedStore`].
    pub fn places(&self, runs: u32) -> Result<Vec<(RunId, Vec<TargetPlace>)>, LabError> {
        self.sql(|connection| {
            connection
                .prepare("SELECT id, manifest FROM run ORDER BY id DESC LIMIT ?")?
                .query_map([runs], |row| {
                    let manifest: Manifest = from_json(row, 1)?;
                    let targets = manifest.targets.into_iter();
                    let places = targets.map(|target| target.place).collect();
                    Ok((RunId(row.get(0)?), places))
                })?
                .collect()
        })
    }

    /// The latest run.
    ///
    /// # Errors
    /// [`LabError::NoRuns`].
    pub fn latest(&self) -> Result<RunId, LabError> {
        self.connection
            .query_row("SELECT max(id) FROM run", [], |row| {
                row.get::<_, Option<i64>>(0)
            })
            .map_err(|error| self.wrap(&error))?
            .map(RunId)
            .ok_or(LabError::NoRuns)
    }

    /// Everything about `run` but the raw output.
    ///
    /// # Errors
    /// [`LabError::UnknownRun`].
    pub fn load(&self, run: RunId) -> Result<RunRecord, LabError> {
        let head = self
            .connection
            .query_row(
                "SELECT plan, seed, started_unix_ms, elapsed_ns, status, manifest FROM run WHERE id = ?",
                [run.0],
                |row| {
                    Ok(RunRecord {
                        id: run,
                        plan: plan(row, 0)?,
                        seed: row.get::<_, String>(1)?.parse().map_err(|error| unreadable(1, error))?,
                        started_unix_ms: unsigned(row, 2)?,
                        elapsed: row.get::<_, Option<i64>>(3)?.map(|_| unsigned(row, 3)).transpose()?.map(Nanos),
                        status: from_json(row, 4)?,
                        manifest: from_json(row, 5)?,
                        commands: Vec::new(),
                        cells: Vec::new(),
                        samples: Vec::new(),
                        findings: Vec::new(),
                    })
                },
            )
            .optional()
            .map_err(|error| self.wrap(&error))?
            .ok_or(LabError::UnknownRun(run))?;
        self.fill(head).map_err(|error| self.wrap(&error))
    }

    /// The raw output of every measurement of `run`, in the order in which they were made.
    ///
    /// # Errors
    /// [`LabError::DamagedStore`].
    pub fn raw(&self, run: RunId) -> Result<Vec<String>, LabError> {
        self.sql(|connection| {
            connection
                .prepare("SELECT raw FROM cell WHERE run = ? ORDER BY id")?
                .query_map([run.0], |row| row.get(0))?
                .collect()
        })
    }

    fn fill(&self, mut run: RunRecord) -> rusqlite::Result<RunRecord> {
        run.commands = self
            .connection
            .prepare("SELECT purpose, line FROM command WHERE run = ? ORDER BY rowid")?
            .query_map([run.id.0], |row| {
                Ok(CommandLine {
                    purpose: row.get(0)?,
                    line: row.get(1)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        run.cells = self.cells(run.id)?;
        run.samples = self
            .connection
            .prepare(
                "SELECT at_ns, sensor, item, value, machine FROM sample WHERE run = ? ORDER BY at_ns, rowid",
            )?
            .query_map([run.id.0], |row| {
                Ok(Sample {
                    at: Nanos(unsigned(row, 0)?),
                    sensor: row.get(1)?,
                    item: row.get(2)?,
                    value: row.get(3)?,
                    machine: row.get(4)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        run.findings = self.findings(run.id, None)?;
        Ok(run)
    }

    fn cells(&self, run: RunId) -> rusqlite::Result<Vec<Cell>> {
        let mut statement = self.connection.prepare(
            "SELECT id, block, position, workload, target, started_ns, elapsed_ns, outcome, evidence FROM cell \
             WHERE run = ? ORDER BY id",
        )?;
        let mut rows = statement.query([run.0])?;
        let mut cells = Vec::new();
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            cells.push(Cell {
                block: row.get(1)?,
                position: row.get(2)?,
                workload: index(row, 3)?,
                target: index(row, 4)?,
                started: Nanos(unsigned(row, 5)?),
                elapsed: Nanos(unsigned(row, 6)?),
                outcome: from_json(row, 7)?,
                evidence: from_json(row, 8)?,
                findings: self.findings(run, Some(id))?,
            });
        }
        Ok(cells)
    }

    fn findings(&self, run: RunId, cell: Option<i64>) -> rusqlite::Result<Vec<Finding>> {
        self.connection
            .prepare_cached("SELECT body FROM finding WHERE run = ? AND cell IS ? ORDER BY rowid")?
            .query_map(params![run.0, cell], |row| from_json(row, 0))?
            .collect()
    }
}

fn run_line(row: &Row<'_>) -> rusqlite::Result<RunLine> {
    let manifest: Manifest = from_json(row, 2)?;
    Ok(RunLine {
        id: RunId(row.get(0)?),
        plan: row.get(1)?,
        targets: manifest
            .targets
            .into_iter()
            .map(|target| target.label)
            .collect(),
        started_unix_ms: unsigned(row, 3)?,
        status: from_json(row, 4)?,
        cells: unsigned(row, 5)?,
    })
}

fn plan(row: &Row<'_>, column: usize) -> rusqlite::Result<Plan> {
    Plan::stored(&row.get::<_, String>(column)?).map_err(|error| unreadable(column, error))
}

fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_slice(text.as_bytes()).map_err(|error| unreadable(column, error))
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|error| unreadable(column, error))
}

fn index(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    usize::try_from(row.get::<_, i64>(column)?).map_err(|error| unreadable(column, error))
}

fn unreadable(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

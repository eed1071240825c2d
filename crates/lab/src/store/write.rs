//! Writing a run as it is made.

use rusqlite::{Connection, params};
use serde::Serialize;

use super::{Cell, CommandLine, NewRun, RunId, Status, Store};
use crate::LabError;
use crate::checks::Finding;
use crate::sensors::Sample;
use crate::units::Nanos;

impl Store {
    /// Begins a run.
    ///
    /// # Errors
    /// [`LabError::Store`] and the like, here and in every function of this type.
    pub fn begin(&self, run: &NewRun) -> Result<RunId, LabError> {
        let plan = run.plan.to_toml()?;
        self.sql(|connection| {
            connection.execute(
                "INSERT INTO run (plan, plan_name, seed, started_unix_ms, status, manifest) VALUES (?, ?, ?, ?, ?, ?)",
                params![
                    plan,
                    run.plan.name,
                    run.seed.to_string(),
                    integer(run.started_unix_ms)?,
                    json(&Status::Running)?,
                    json(&run.manifest)?,
                ],
            )?;
            Ok(RunId(connection.last_insert_rowid()))
        })
    }

    /// Notes a command; the same one is kept once.
    ///
    /// # Errors
    /// [`LabError::Store`].
    pub fn add_command(&self, run: RunId, command: &CommandLine) -> Result<(), LabError> {
        let statement = "INSERT OR IGNORE INTO command (run, purpose, line) VALUES (?, ?, ?)";
        let values = params![run.0, command.purpose, command.line];
        self.sql(|connection| connection.execute(statement, values).map(drop))
    }

    /// Keeps a measurement with the raw output and the samples taken since the last one.
    ///
    /// # Errors
    /// [`LabError::Store`].
    pub fn add_cell(
        &mut self,
        run: RunId,
        cell: &Cell,
        raw: &str,
        samples: &[Sample],
    ) -> Result<(), LabError> {
        let written = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            let id = insert_cell(&transaction, run, cell, raw)?;
            for finding in &cell.findings {
                insert_finding(&transaction, run, Some(id), finding)?;
            }
            insert_samples(&transaction, run, samples)?;
            transaction.commit()
        };
        written(&mut self.connection).map_err(|error| self.wrap(&error))
    }

    /// Keeps samples without a measurement.
    ///
    /// # Errors
    /// [`LabError::Store`].
    pub fn add_samples(&mut self, run: RunId, samples: &[Sample]) -> Result<(), LabError> {
        let written = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            insert_samples(&transaction, run, samples)?;
            transaction.commit()
        };
        written(&mut self.connection).map_err(|error| self.wrap(&error))
    }

    /// Keeps a finding about the run as a whole.
    ///
    /// # Errors
    /// [`LabError::Store`].
    pub fn add_finding(&self, run: RunId, finding: &Finding) -> Result<(), LabError> {
        self.sql(|connection| insert_finding(connection, run, None, finding))
    }

    /// Opens a run again that goes on.
    ///
    /// # Errors
    /// [`LabError::Store`].
    pub fn reopen(&self, run: RunId) -> Result<(), LabError> {
        let statement = "UPDATE run SET status = ? WHERE id = ?";
        self.sql(|connection| {
            let values = params![json(&Status::Running)?, run.0];
            connection.execute(statement, values).map(drop)
        })
    }

    /// Ends a run.
    ///
    /// # Errors
    /// [`LabError::Store`].
    pub fn finish(&self, run: RunId, status: &Status, elapsed: Nanos) -> Result<(), LabError> {
        let statement = "UPDATE run SET status = ?, elapsed_ns = ? WHERE id = ?";
        self.sql(|connection| {
            let values = params![json(status)?, integer(elapsed.0)?, run.0];
            connection.execute(statement, values).map(drop)
        })
    }
}

fn insert_cell(
    connection: &Connection,
    run: RunId,
    cell: &Cell,
    raw: &str,
) -> rusqlite::Result<i64> {
    let headline = cell.headline().map(|headline| headline.value);
    connection
        .prepare_cached(
            "INSERT INTO cell (run, block, position, workload, target, started_ns, elapsed_ns, headline, outcome, \
             evidence, raw) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            run.0,
            cell.block,
            cell.position,
            integer(cell.workload as u64)?,
            integer(cell.target as u64)?,
            integer(cell.started.0)?,
            integer(cell.elapsed.0)?,
            headline.filter(|value| value.is_finite()),
            json(&cell.outcome)?,
            json(&cell.evidence)?,
            raw,
        ])?;
    Ok(connection.last_insert_rowid())
}

fn insert_finding(
    connection: &Connection,
    run: RunId,
    cell: Option<i64>,
    finding: &Finding,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO finding (run, cell, check_name, level, text, body) VALUES (?, ?, ?, ?, ?, ?)")?
        .execute(params![
            run.0,
            cell,
            finding.check.as_str(),
            format!("{:?}", finding.level).to_lowercase(),
            finding.text,
            json(finding)?
        ])
        .map(|_| ())
}

fn insert_samples(connection: &Connection, run: RunId, samples: &[Sample]) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO sample (run, machine, at_ns, sensor, item, value) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    for sample in samples {
        statement.execute(params![
            run.0,
            sample.machine,
            integer(sample.at.0)?,
            sample.sensor,
            sample.item,
            sample.value
        ])?;
    }
    Ok(())
}

fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// SQLite's integers are signed.
fn integer(value: u64) -> rusqlite::Result<i64> {
    i64::try_from(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

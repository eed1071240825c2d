//! The store: one SQLite file with every run, its commands, raw results, samples and checks.
//!
//! Invariants: the file says what it is (application id) and which schema it has (user version); a
//! later schema is refused, an earlier one is brought up to ours in one transaction ([`migrate`]), a
//! damaged file is named and left as it is. Reading needs no right to write. A measurement is written in
//! one transaction as soon as it is made, so what was measured survives any later failure.
//!
//! What it deliberately does not do: it computes nothing; medians and checks are not stored twice.

mod migrate;
mod model;
mod outcome;
mod read;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use model::{
    AgentEvidence, AgentRecord, Cell, CommandLine, Evidence, LeftOutTarget, Manifest, NewRun,
    RunId, RunLine, RunRecord, Skipped, Status,
};
pub use outcome::{Headline, Outcome};

use crate::LabError;

/// The schema this version writes.
const SCHEMA_VERSION: i64 = 2;
/// "oblb", so that `file` and we know a store from any other SQLite file.
const APPLICATION_ID: i64 = 0x6f62_6c62;
/// How long to wait for another process that writes to the same store.
const BUSY: Duration = Duration::from_secs(10);

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// The default path of the store: `$XDG_DATA_HOME/outboard/lab.sqlite`, or
/// `~/.local/share/outboard/lab.sqlite`.
///
/// # Errors
/// [`LabError::BadRequest`] when neither variable is set.
pub fn default_path() -> Result<PathBuf, LabError> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .ok_or_else(|| {
            LabError::BadRequest("neither XDG_DATA_HOME nor HOME is set; give --store PATH".into())
        })?;
    Ok(data.join("outboard").join("lab.sqlite"))
}

impl Store {
    /// Opens the store at `path` to keep runs in it, making it and its directory when they are not there.
    ///
    /// # Errors
    /// [`LabError::DamagedStore`], [`LabError::NewerStore`], [`LabError::Store`].
    pub fn open(path: &Path) -> Result<Self, LabError> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| LabError::Store {
                path: path.to_owned(),
                reason: format!("cannot make its directory: {error}"),
            })?;
        }
        let mut store = Self::connect(path)?;
        store.prepare()?;
        Ok(store)
    }

    /// Opens the store at `path` to look at the runs in it, which needs no right to write. One of an earlier
    /// version is brought up to ours first, and that does.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn look(path: &Path) -> Result<Self, LabError> {
        let mut store = Self::connect(path)?;
        if schema(&store.connection, path)? != Some(SCHEMA_VERSION) {
            store.prepare()?;
        }
        Ok(store)
    }

    /// Opens the store at `path` as it is, to look at its runs: it is neither made, nor brought up to our version.
    ///
    /// # Errors
    /// Those of [`Store::open`]; [`LabError::Store`] also where it is of an earlier version.
    pub fn peek(path: &Path) -> Result<Self, LabError> {
        let wrap = |error: rusqlite::Error| store_error(path, &error);
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let connection = connection.map_err(wrap)?;
        connection.busy_timeout(BUSY).map_err(wrap)?;
        if schema(&connection, path)? != Some(SCHEMA_VERSION) {
            return Err(LabError::Store {
                path: path.to_owned(),
                reason: "it is of an earlier version, or empty".to_owned(),
            });
        }
        Ok(Self {
            connection,
            path: path.to_owned(),
        })
    }

    /// Looks at every page of the file. What is kept in a damaged one may never be read again, and hours of
    /// measuring are too much to find that out.
    ///
    /// # Errors
    /// [`LabError::DamagedStore`].
    pub fn verify(&self) -> Result<(), LabError> {
        let found: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| self.wrap(&error))?;
        match found.as_str() {
            "ok" => Ok(()),
            found => Err(damaged(&self.path, found.lines().last().unwrap_or(found))),
        }
    }

    fn connect(path: &Path) -> Result<Self, LabError> {
        let wrap = |error: rusqlite::Error| store_error(path, &error);
        let connection = Connection::open(path).map_err(wrap)?;
        connection.busy_timeout(BUSY).map_err(wrap)?;
        connection
            .pragma_update(None, "foreign_keys", true)
            .map_err(wrap)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn prepare(&mut self) -> Result<(), LabError> {
        let wrap = |error: rusqlite::Error| store_error(&self.path, &error);
        // One writer makes the tables; a second that started at the same moment finds them.
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(wrap)?;
        match schema(&transaction, &self.path)? {
            Some(SCHEMA_VERSION) => return Ok(()),
            Some(_) => migrate::migrate(&transaction).map_err(wrap)?,
            None => {
                transaction
                    .execute_batch(include_str!("schema.sql"))
                    .map_err(wrap)?;
                transaction
                    .pragma_update(None, "application_id", APPLICATION_ID)
                    .map_err(wrap)?;
            }
        }
        transaction
            .pragma_update(None, "user_version", SCHEMA_VERSION)
            .map_err(wrap)?;
        transaction.commit().map_err(wrap)
    }

    fn wrap(&self, error: &rusqlite::Error) -> LabError {
        store_error(&self.path, error)
    }

    /// Runs statements; their error names the store.
    fn sql<T>(&self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, LabError> {
        run(&self.connection).map_err(|error| self.wrap(&error))
    }
}

/// The schema of a store, which is ours or an earlier one; none where nothing was made yet.
fn schema(connection: &Connection, path: &Path) -> Result<Option<i64>, LabError> {
    let wrap = |error: rusqlite::Error| store_error(path, &error);
    let pragma = |name: &str| {
        let value = connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        value.map_err(wrap)
    };
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(wrap)?;
    if tables == 0 {
        return Ok(None);
    }
    if pragma("application_id")? != APPLICATION_ID {
        return Err(damaged(path, "it is another program's database"));
    }
    let found = pragma("user_version")?;
    if found > SCHEMA_VERSION {
        return Err(LabError::NewerStore {
            path: path.to_owned(),
            found,
            known: SCHEMA_VERSION,
        });
    }
    // SQLite takes what lacks of the last page for zeroes.
    let bytes = pragma("page_count")?.saturating_mul(pragma("page_size")?);
    let is_short =
        |found: std::fs::Metadata| i64::try_from(found.len()).is_ok_and(|there| there < bytes);
    match std::fs::metadata(path).is_ok_and(is_short) {
        true => Err(damaged(path, "its end is missing")),
        false => Ok(Some(found)),
    }
}

fn damaged(path: &Path, reason: &str) -> LabError {
    LabError::DamagedStore {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

fn store_error(path: &Path, error: &rusqlite::Error) -> LabError {
    use rusqlite::Error as E;
    let reason = error.to_string();
    let is_damage = match error {
        E::SqliteFailure(failure, _) => {
            matches!(
                failure.code,
                ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt
            )
        }
        // A row that does not hold what its column must hold.
        E::FromSqlConversionFailure(..)
        | E::InvalidColumnType(..)
        | E::Utf8Error(..)
        | E::IntegralValueOutOfRange(..) => true,
        _ => false,
    };
    if is_damage {
        return damaged(path, &reason);
    }
    LabError::Store {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests;

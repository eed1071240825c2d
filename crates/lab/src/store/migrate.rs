//! A store of the first schema brought up to this one.
//!
//! What changed: a measurement may be another tool's, so `result` became `outcome`; a run has any
//! number of targets, one of which may be the baseline, so the processes and the directory of a
//! target are kept with it. The plan's text is the same. Runs inside the caller's transaction.

use rusqlite::types::Type;
use rusqlite::{Connection, params};
use serde_json::{Map, Value, json};

/// The table of the first schema becomes ours; what can be computed from `result` is dropped.
const CELLS: &str = "
    ALTER TABLE cell RENAME COLUMN result TO outcome;
    ALTER TABLE cell RENAME COLUMN fio_json TO raw;
    ALTER TABLE cell ADD COLUMN headline REAL;
    UPDATE cell SET headline = bytes * 1e9 / runtime_ns WHERE runtime_ns > 0;
    ALTER TABLE cell DROP COLUMN direction;
    ALTER TABLE cell DROP COLUMN bytes;
    ALTER TABLE cell DROP COLUMN ios;
    ALTER TABLE cell DROP COLUMN runtime_ns;
    UPDATE cell SET outcome = '{\"fio\":' || outcome || '}';
    ALTER TABLE sample ADD COLUMN machine INTEGER NOT NULL DEFAULT 0;
";

/// From version 1 to version 2.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(CELLS)?;
    let mut statement = connection.prepare("SELECT id, manifest FROM run")?;
    let runs: Vec<(i64, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (id, text) in runs {
        let old: Value = serde_json::from_slice(text.as_bytes()).map_err(unreadable)?;
        let new = manifest(old).to_string();
        connection.execute("UPDATE run SET manifest = ? WHERE id = ?", params![new, id])?;
    }
    Ok(())
}

/// The manifest of the first schema, in the shape of this one.
fn manifest(mut old: Value) -> Value {
    let processes: Vec<Value> = ["server", "client"]
        .iter()
        .filter_map(|role| {
            let pid = old[format!("{role}_pid")].as_u64()?;
            Some(json!({ "role": role, "pid": pid }))
        })
        .collect();
    let targets = old["targets"].as_array().cloned().unwrap_or_default();
    // There were one or two, and the second was the baseline.
    let baseline = (targets.len() == 2).then_some(1);
    let targets = targets
        .into_iter()
        .zip(["target", "against"])
        .enumerate()
        .map(|(index, (mut target, name))| {
            let directory = target["directory"].take();
            target["place"] = json!({ "directory": directory });
            target["name"] = json!(name);
            target["processes"] = match index {
                0 => json!(processes),
                _ => json!([]),
            };
            without(target, &["directory"])
        });
    let targets: Vec<Value> = targets.collect();
    old["targets"] = json!(targets);
    old["baseline"] = json!(baseline);
    for list in ["agents", "left_out", "skipped"] {
        old[list] = json!([]);
    }
    without(old, &["server_pid", "client_pid"])
}

fn without(value: Value, keys: &[&str]) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };
    let kept = fields
        .into_iter()
        .filter(|(key, _)| !keys.contains(&key.as_str()));
    Value::Object(kept.collect::<Map<_, _>>())
}

fn unreadable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(1, Type::Text, Box::new(error))
}

//! Arguments of `snapshot`: `ORIGIN STORE P|PO|N CHUNK [COUNT FEATURE…]`. Pure.

use super::error::{Problem, TableError};
use super::parse::device;
use super::table::Target;
use super::words::Words;

/// The largest chunk of a snapshot, sectors: 128 MiB, far above any that is of use.
const CHUNK_MAX: u64 = 1 << 18;

/// Reads them.
pub(super) fn snapshot(words: &mut Words<'_>) -> Result<Target, TableError> {
    let origin = device(words, "the origin's device")?;
    let store = device(words, "the store's device")?;
    let kept = words.argument("P or PO")?;
    // PO only adds the word "Overflow" to the status of a store that is full.
    match kept.text.as_str() {
        "P" | "p" | "PO" | "po" => {}
        "N" | "n" => {
            let store = store.to_string();
            return Err(Problem::NotPersistent { store }.at(kept.place));
        }
        _ => return Err(Problem::Persistence { found: kept.text }.at(kept.place)),
    }
    let (chunk, place) = words.number("the chunk in sectors")?;
    if !chunk.is_power_of_two() || chunk > CHUNK_MAX {
        let problem = Problem::SnapshotChunk {
            found: chunk,
            max: CHUNK_MAX,
        };
        return Err(problem.at(place));
    }
    if !words.is_empty() {
        let (count, _) = words.number("the number of features")?;
        if count > 0 {
            let feature = words.argument("a feature")?;
            let found = feature.text;
            return Err(Problem::SnapshotFeatures { found }.at(feature.place));
        }
    }
    Ok(Target::Snapshot {
        origin,
        store,
        chunk,
    })
}

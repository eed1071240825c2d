//! [`change_level`]: the level of an array that no process uses, by its superblocks alone.

use super::super::format::Level;
use super::super::open::assembled;
use super::super::{ArrayError, ArrayOptions, Candidate};
use super::superblocks::LevelChange;
use super::{is_changed_in_use, wipe_member};

/// What came of another level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelChanged {
    /// Members that do not belong to the array any more, by their names.
    pub released: Vec<String>,
    /// What members kept, and keep no more: the level has none.
    pub dropped: Option<&'static str>,
}

/// Gives the array that `candidates` are members of another level; no process may use it. A member that comes is missing then.
///
/// # Errors
/// It does not become one of that level, was not stopped, or something is missing; nothing was written, but where a write failed: what
/// was written before is taken back then, and where that fails, too, the next open of the array for writing makes it whole.
pub async fn change_level(
    candidates: Vec<Candidate>,
    options: &ArrayOptions,
    level: Level,
) -> Result<LevelChanged, ArrayError> {
    let mut assembly = Box::pin(assembled(candidates, options)).await?;
    let from = assembly.facts.level;
    if is_changed_in_use(from, level) && from != level {
        let what = format!("{from} becomes {level} while the array is open");
        return Err(ArrayError::refused(what, "open it, and change it there"));
    }
    let change = LevelChange::plan(&assembly, level)?;
    let written = change.write(&mut assembly).await?;
    for member in &written.released {
        wipe_member(member).await?;
    }
    let released = written.released.into_iter().map(|member| member.name);
    Ok(LevelChanged {
        released: released.collect(),
        dropped: written.dropped,
    })
}

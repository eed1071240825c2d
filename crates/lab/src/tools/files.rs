//! Folders of a tool, with errors that name them, and the cancellation of long work on files.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::{Tick, ToolError};

/// Makes a folder, and those around it, if it is not there.
pub(super) fn make_folder(path: &Path) -> Result<(), ToolError> {
    fs::create_dir_all(path)
        .map_err(|error| ToolError::system(format!("make {}", path.display()), error))
}

/// Removes a folder with all that is in it, if it is there.
pub(super) fn remove_folder(path: &Path) -> Result<(), ToolError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let what = format!("remove {}", path.display());
            Err(ToolError::system(what, error))
        }
        _ => Ok(()),
    }
}

/// Fails once the caller wants to stop.
pub(super) fn check_cancelled(tick: Tick<'_>) -> Result<(), ToolError> {
    match tick(engine::clock::now()) {
        true => Ok(()),
        false => Err(ToolError::Cancelled),
    }
}

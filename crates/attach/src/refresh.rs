//! `refresh`: has an attachment ask its server for the size of the disk, and grow with it.

use std::path::Path;
use std::time::Duration;

use crate::daemon::control::ask;
use crate::daemon::message::{Ask, Reply};
use crate::detach::{is_meant, name};
use crate::error::AttachError;
use crate::request::Which;
use crate::state::RuntimeDir;

/// How long the owner may take: it may make its connections anew.
const ANSWER_FOR: Duration = Duration::from_secs(90);

/// The size, bytes, that the device or mount at `path` has now.
///
/// # Errors
/// [`AttachError::NotAttached`]; [`AttachError::RefusedThere`] where the server cannot be asked or the
/// disk has become smaller.
pub fn refresh(path: &Path) -> Result<u64, AttachError> {
    let which = Which::At(path.to_owned());
    for folder in RuntimeDir::of_user()?.list()? {
        let Some(record) = folder.read()?.filter(|record| is_meant(&which, record)) else {
            continue;
        };
        let refused = |why| AttachError::RefusedThere {
            device: name(&record),
            why,
        };
        return match ask(&folder.socket_path(), Ask::Refresh, ANSWER_FOR) {
            Ok(Reply::Size(size)) => Ok(size),
            Ok(Reply::Refused(why)) => Err(refused(why)),
            Ok(_) => Err(refused("it answered another question".to_owned())),
            Err(e) => Err(refused(format!("its process does not answer: {e}"))),
        };
    }
    Err(AttachError::NotAttached(path.to_owned()))
}

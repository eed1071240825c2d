//! `refresh`: has an attachment ask its server for the size of the disk, and grow with it.

use std::path::Path;
use std::time::Duration;

use crate::daemon::control::send_request;
use crate::daemon::message::{ControlReply, ControlRequest};
use crate::detach::{is_target, name};
use crate::error::AttachError;
use crate::request::DetachTarget;
use crate::state::RuntimeDir;

/// How long the owner may take: it may have to reconnect.
const ANSWER_FOR: Duration = Duration::from_secs(90);

/// The size, bytes, that the device or mount at `path` has now.
///
/// # Errors
/// [`AttachError::NotAttached`]; [`AttachError::RefusedThere`] where the server cannot be reached or the
/// disk has become smaller.
pub fn refresh(path: &Path) -> Result<u64, AttachError> {
    let which = DetachTarget::Path(path.to_owned());
    for folder in RuntimeDir::of_user()?.list()? {
        let Some(record) = folder.read()?.filter(|record| is_target(&which, record)) else {
            continue;
        };
        let refused = |why| AttachError::RefusedThere {
            device: name(&record),
            why,
        };
        return match send_request(&folder.socket_path(), ControlRequest::Refresh, ANSWER_FOR) {
            Ok(ControlReply::Size(size)) => Ok(size),
            Ok(ControlReply::Refused(why)) => Err(refused(why)),
            Ok(_) => Err(refused("it answered another question".to_owned())),
            Err(e) => Err(refused(format!("its process does not answer: {e}"))),
        };
    }
    Err(AttachError::NotAttached(path.to_owned()))
}

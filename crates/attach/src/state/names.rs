//! Names of attachments: symbolic links to their devices, in a folder of the runtime directory.
//!
//! ```text
//! /run/outboard-attach/by-name/media -> /dev/nbd0
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Folder, StateError};

const BY_NAME: &str = "by-name";

impl Folder {
    /// Where the device of this name is found.
    pub(crate) fn name_path(&self, name: &str) -> PathBuf {
        self.runtime().join(BY_NAME).join(name)
    }

    fn runtime(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Lets `name` lead to `device`. A link that leads nowhere any more is replaced.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn link(&self, name: &str, device: &Path) -> Result<(), StateError> {
        let link = self.name_path(name);
        let folder = self.runtime().join(BY_NAME);
        match fs::create_dir(&folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(StateError::io(&folder, "create")(e));
            }
            _ => {}
        }
        std::os::unix::fs::symlink(device, &link).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => StateError::NameTaken {
                name: name.to_owned(),
            },
            _ => StateError::io(&link, "create")(e),
        })
    }

    /// Takes the name away, if it leads to `device`.
    pub(crate) fn unlink(&self, name: &str, device: &Path) {
        let link = self.name_path(name);
        if fs::read_link(&link).is_ok_and(|target| target == device) {
            if let Err(e) = fs::remove_file(&link) {
                tracing::warn!("{}: not removed: {e}", link.display());
            }
            // It stays where another name is in it.
            drop(fs::remove_dir(self.runtime().join(BY_NAME)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RuntimeDir;
    use super::*;

    #[test]
    fn a_name_leads_to_its_device_and_goes_without_a_trace() {
        let temp = tempfile::tempdir().unwrap();
        let folder = RuntimeDir::at(temp.path().join("run")).create().unwrap();
        let (device, other) = (Path::new("/dev/nbd3"), Path::new("/dev/nbd4"));
        folder.link("media", device).unwrap();
        assert_eq!(fs::read_link(folder.name_path("media")).unwrap(), device);
        let taken = folder.link("media", other).unwrap_err().to_string();
        assert!(taken.contains("media"), "{taken}");
        folder.unlink("media", other);
        assert!(folder.name_path("media").is_symlink(), "it is another's");
        folder.unlink("media", device);
        folder.remove().unwrap();
        assert!(!temp.path().join("run").exists());
    }
}

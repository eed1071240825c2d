//! The guest's folder, as `cargo xtask guest --lab` leaves it.

use std::path::{Path, PathBuf};

use crate::DriverError;

/// What makes one.
const MAKE: &str = "make it with `cargo xtask guest --lab`, in outboard's source tree";
/// The agreement between the script in the guest and us.
const SESSION: &str = "1";

/// A guest that can be started.
#[derive(Debug)]
pub(super) struct Guest {
    /// Its kernel.
    pub(super) kernel: PathBuf,
    /// Its first filesystem.
    pub(super) initrd: PathBuf,
}

impl Guest {
    /// Looks whether all of it is there and made for us.
    pub(super) fn find(folder: &Path) -> Result<Self, DriverError> {
        let shown = folder.display();
        let [kernel, initrd] = ["kernel", "initrd"].map(|name| folder.join(name));
        let session = std::fs::read_to_string(folder.join("session"));
        let (Ok(session), true, true) = (session, kernel.is_file(), initrd.is_file()) else {
            return Err(DriverError::new(format!("there is no guest in {shown}")).next(MAKE));
        };
        if session.trim() != SESSION {
            let what = format!("the guest in {shown} is of another version of outboard");
            return Err(DriverError::new(what).next(MAKE));
        }
        Ok(Self { kernel, initrd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_guest_or_with_an_old_one_is_refused_with_what_makes_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let told = |folder: &Path| Guest::find(folder).expect_err("no guest").to_string();
        assert!(told(folder.path()).contains("there is no guest in"));
        for name in ["kernel", "initrd"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        std::fs::write(folder.path().join("session"), "0\n").expect("a file");
        let old = told(folder.path());
        assert!(old.contains("another version"), "{old}");
        assert!(old.contains("cargo xtask guest --lab"), "{old}");
        std::fs::write(folder.path().join("session"), "1\n").expect("a file");
        assert!(Guest::find(folder.path()).is_ok());
    }
}

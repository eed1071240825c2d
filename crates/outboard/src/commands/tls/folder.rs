//! Folders of certificates, laid out as libnbd, nbdkit and qemu read them.
//!
//! # Invariants
//!
//! * Nothing that exists is overwritten.
//! * A key is never readable for others, not even while it is written; that of the server may be for one group.

use std::fs::Permissions;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::authority::CertificatePair;
use crate::failure::Failure;

pub(super) const AUTHORITY: &str = "ca-cert.pem";
pub(super) const AUTHORITY_KEY: &str = "ca-key.pem";

/// Readable for all, for the owner alone, and for the owner and a group.
const PUBLIC: u32 = 0o644;
const SECRET: u32 = 0o600;
const SECRET_OF_GROUP: u32 = 0o640;

/// A folder that is being filled.
#[derive(Debug)]
pub(super) struct CertificateFolder(PathBuf);

impl CertificateFolder {
    /// Makes the folder if it is not there; it may be there with other files in it.
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        let what = || format!("cannot make the folder {}", path.display());
        made.map_err(|error| Failure::because(what(), &error))?;
        Ok(Self(path.to_owned()))
    }

    /// Writes the authority's certificate, which is no secret.
    pub(super) fn authority(&self, certificate: &str) -> Result<(), Failure> {
        self.write(AUTHORITY, certificate, PUBLIC, None)
    }

    /// Writes `client-cert.pem` and `client-key.pem`.
    pub(super) fn client(&self, pair: &CertificatePair) -> Result<(), Failure> {
        self.write("client-key.pem", &pair.key, SECRET, None)?;
        self.write("client-cert.pem", &pair.certificate, PUBLIC, None)
    }

    /// Writes `server-cert.pem` and `server-key.pem`; the key is readable for that group, too.
    pub(super) fn server(&self, pair: &CertificatePair, group: Option<u32>) -> Result<(), Failure> {
        self.write("server-key.pem", &pair.key, SECRET, group)?;
        self.write("server-cert.pem", &pair.certificate, PUBLIC, None)
    }

    /// Writes the authority's key.
    pub(super) fn authority_key(&self, key: &str) -> Result<(), Failure> {
        self.write(AUTHORITY_KEY, key, SECRET, None)
    }

    fn write(&self, name: &str, text: &str, mode: u32, group: Option<u32>) -> Result<(), Failure> {
        let path = self.0.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let written = options.open(&path).and_then(|mut file| {
            if group.is_some() {
                fchown(&file, None, group)?;
                file.set_permissions(Permissions::from_mode(SECRET_OF_GROUP))?;
            }
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|error| refused(&path, &error))
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::AlreadyExists {
        let what = format!("{} exists and is not overwritten", path.display());
        return Failure::new(what).next("choose another folder, or move it away first");
    }
    Failure::because(format!("cannot write {}", path.display()), error)
}

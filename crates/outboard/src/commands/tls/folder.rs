//! Folders of certificates, laid out as libnbd, nbdkit and qemu read them.
//!
//! # Invariants
//!
//! * Nothing that exists is overwritten.
//! * A key is never readable for others, not even while it is written.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::authority::CertificatePair;
use crate::failure::Failure;

pub(super) const AUTHORITY: &str = "ca-cert.pem";
pub(super) const AUTHORITY_KEY: &str = "ca-key.pem";

/// Readable for all, and for the owner alone.
const PUBLIC: u32 = 0o644;
const SECRET: u32 = 0o600;

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
        self.write(AUTHORITY, certificate, PUBLIC)
    }

    /// Writes `NAME-cert.pem` and `NAME-key.pem`.
    pub(super) fn pair(&self, who: &str, pair: &CertificatePair) -> Result<(), Failure> {
        self.write(&format!("{who}-key.pem"), &pair.key, SECRET)?;
        self.write(&format!("{who}-cert.pem"), &pair.certificate, PUBLIC)
    }

    /// Writes the authority's key.
    pub(super) fn authority_key(&self, key: &str) -> Result<(), Failure> {
        self.write(AUTHORITY_KEY, key, SECRET)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> Result<(), Failure> {
        let path = self.0.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let written = options.open(&path).and_then(|mut file| {
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

//! [`BackupPath`]: the file of `array grow --backup-file`, in which rows are backed up before a reshape writes over them.
//!
//! # Invariants
//!
//! * It is a regular file, made for its owner alone, with all its room taken: no backup fails later for want of space.
//! * It is not on a device that is attached from a server, as far as sysfs shows: that may be the array itself, which would wait for it.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::Node;
use nodes::array::{BackupFile, BackupFuture};
use nodes::{File, FileOptions};

use crate::failure::Failure;

/// Devices below a device, looked at.
const DEVICES_MAX: usize = 64;

/// A backup file by its path.
#[derive(Debug, Clone)]
pub(crate) struct BackupPath {
    path: PathBuf,
    name: String,
}

impl BackupPath {
    /// The file at `path`, which may be there or not.
    ///
    /// # Errors
    /// It is on a device that may be the array.
    pub(crate) fn of(path: &str) -> Result<Arc<dyn BackupFile>, Failure> {
        let this = Self {
            path: PathBuf::from(path),
            name: path.to_owned(),
        };
        if let Some(device) = this.attached_device() {
            let what = format!(
                "the backup file {path} is on {device}, which is attached from a server: it may be the array, which waits for the file"
            );
            return Err(Failure::usage(what).next("name a file on a disk of this machine"));
        }
        Ok(Arc::new(this))
    }

    fn directory(&self) -> &Path {
        let parent = self.path.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    /// A device below the filesystem of the file that is attached from a server.
    fn attached_device(&self) -> Option<String> {
        let metadata = fs::metadata(&self.path).or_else(|_| fs::metadata(self.directory()));
        let device = metadata.ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let mut open = vec![PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))];
        let attached = attach::status().unwrap_or_default();
        for _ in 0..DEVICES_MAX {
            // The directory of a partition is in that of its disk.
            let path = fs::canonicalize(open.pop()?).ok()?;
            let name = path.file_name()?.to_string_lossy().into_owned();
            let device = Path::new("/dev").join(&name);
            if name.starts_with("nbd")
                || attached
                    .iter()
                    .any(|one| one.device.as_ref() == Some(&device))
            {
                return Some(device.display().to_string());
            }
            if path.join("partition").exists() {
                open.extend(path.parent().map(Path::to_owned));
            }
            let slaves = fs::read_dir(path.join("slaves")).into_iter().flatten();
            open.extend(slaves.flatten().map(|slave| slave.path()));
        }
        None
    }

    /// Makes it where it is not there, and takes room up to `len`.
    fn take_room(&self, len: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let is_new = !self.path.try_exists()?;
        options.write(true).create_new(is_new).mode(0o600);
        let mut file = options.open(&self.path)?;
        let taken = io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        io::copy(
            &mut io::repeat(0).take(len.saturating_sub(taken)),
            &mut file,
        )?;
        file.flush()?;
        file.sync_all()?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> io::Result<()> {
        fs::File::open(self.directory())?.sync_all()
    }

    async fn node(&self) -> Result<Node, String> {
        let opened = File::open(&self.path, FileOptions::default()).await;
        Ok(Arc::new(opened.map_err(|error| error.to_string())?))
    }
}

/// Does something with a path that may wait for a disk.
async fn blocking(
    path: &BackupPath,
    act: impl FnOnce(&BackupPath) -> io::Result<()> + Send + 'static,
) -> Result<(), String> {
    let path = path.clone();
    let done = engine::blocking(move || act(&path)).await;
    done.map_err(|error| error.to_string())
}

impl BackupFile for BackupPath {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self) -> BackupFuture<'_, Option<Node>> {
        Box::pin(async {
            match fs::metadata(&self.path) {
                Ok(found) if found.is_file() => self.node().await.map(Some),
                Ok(_) => Err("it is no regular file".to_owned()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn create(&self, len: u64) -> BackupFuture<'_, Node> {
        Box::pin(async move {
            blocking(self, move |path| path.take_room(len)).await?;
            self.node().await
        })
    }

    fn remove(&self) -> BackupFuture<'_, ()> {
        Box::pin(blocking(self, |path| {
            fs::remove_file(&path.path)?;
            path.sync_directory()
        }))
    }
}

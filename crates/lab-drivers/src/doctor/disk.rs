//! [`ExaminedDisk`]: a disk expression as the program describes it to the doctor.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use block::Node;
use lab::doctor::{ServedReading, StoreReading};

use crate::DriverError;

/// A disk that is opened.
pub type Opened = Pin<Box<dyn Future<Output = Result<Node, DriverError>>>>;

/// Opens one disk, read-only.
pub trait OpenDisk: fmt::Debug {
    /// Opens it, exports over so many connections. Called on the engine.
    fn open(&self, connections: usize) -> Opened;

    /// What the volumes on object stores that are open in this process have requested of their stores.
    fn stores(&self) -> Vec<StoreReading>;
}

/// Reads disk expressions.
pub trait DiskResolver: fmt::Debug {
    /// What an expression names.
    ///
    /// # Errors
    /// The expression is wrong.
    fn resolve(&self, text: &str) -> Result<ExaminedDisk, DriverError>;

    /// The disk behind an export of a process, where that is a server of ours.
    fn served(&self, process: u32, export: &str) -> Option<Result<ExaminedDisk, String>>;

    /// What a process reports of its clients and members now, where it is a server of ours.
    fn report(&self, process: u32) -> Option<ServedReading>;
}

/// A disk of a stripe.
#[derive(Debug, Clone)]
pub struct StripedDisk {
    /// Its file, its URI, or its place in the stripe.
    pub name: String,
    /// The disk.
    pub disk: ExaminedDisk,
}

/// A disk that can be examined.
#[derive(Debug, Clone)]
pub struct ExaminedDisk {
    /// The whole text, for messages.
    pub text: String,
    /// The expression without its name.
    pub expression: String,
    /// The name of its kind in expressions.
    pub node: &'static str,
    /// The files that it is in.
    pub files: Vec<PathBuf>,
    /// The file, where it is nothing else.
    pub file: Option<PathBuf>,
    /// Whether it is parts of files and nothing that takes time of its own.
    pub is_plain: bool,
    /// Whether reading it disturbs no process that has it open.
    pub can_be_opened_twice: bool,
    /// The only disk below it.
    pub below: Option<Box<Self>>,
    /// The disks of a stripe, each of which gets the same part of what is read.
    pub striped: Vec<StripedDisk>,
    /// Opens it.
    pub opener: Arc<dyn OpenDisk>,
}

//! [`VolumeFigures`]: what an open volume has requested of its store. Pure.

use serde::{Deserialize, Serialize};

use crate::prices::{Decimal, VolumeCost};

/// Kinds of requests, as stores charge for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreOperation {
    /// An object, a part of one, or what is known of it.
    Get,
    /// An object, a part of one, or a copy.
    Put,
    /// A page of up to 1,000 names.
    List,
    /// An object that is deleted. Stores may take many of them in one request.
    Delete,
}

impl StoreOperation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Get, Self::Put, Self::List, Self::Delete];

    /// As figures have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// Requests of one kind since the volume was opened. What the client repeats by itself after an error counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationFigures {
    /// Which.
    pub operation: StoreOperation,
    /// How many were sent, and those of a kind that the store does not have, which are refused before.
    pub requests: u64,
    /// How many the store did not carry out: it failed, refused or did not answer. An object that is not there, or is there already,
    /// is an answer.
    pub failures: u64,
    /// Time from each request to its answer, in all, nanoseconds, for those that were answered. The data of a `get` comes after the
    /// answer; what comes as a stream, a list of a folder and all below it and deletes, is not measured.
    pub nanos: u64,
    /// How many requests that time is of.
    #[serde(default)]
    pub answered: u64,
}

/// The local journal of an open volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalFigures {
    /// Bytes of records that are not in the store yet.
    pub unstored: u64,
    /// Bytes that it has for records.
    pub size: u64,
    /// Flushes that waited for the store because it was full.
    pub full_waits: u64,
}

/// An open volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFigures {
    /// Where it is.
    pub uri: String,
    /// It is open for writing.
    pub is_writer: bool,
    /// Why it is out of use, if it is.
    pub failure: Option<String>,
    /// Memory of changes that are not in the store yet, bytes.
    pub unwritten: u64,
    /// Its local journal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalFigures>,
    /// Data that was requested and that the store had, bytes.
    pub received: u64,
    /// Data that was sent, bytes.
    pub sent: u64,
    /// Time since it was opened, milliseconds.
    #[serde(default)]
    pub open_ms: u64,
    /// Requests of all kinds, the mean since it was opened.
    #[serde(default)]
    pub requests_per_second: Decimal,
    /// What that cost, where the prices of the store are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<VolumeCost>,
    /// One of each kind, in the order of [`StoreOperation::ALL`].
    pub operations: Vec<OperationFigures>,
}

impl VolumeFigures {
    /// Adds what another handle of the same volume has requested.
    pub fn add(&mut self, other: &Self) {
        if self.failure.is_none() {
            self.failure.clone_from(&other.failure);
        }
        self.unwritten += other.unwritten;
        self.received += other.received;
        self.sent += other.sent;
        self.open_ms = self.open_ms.max(other.open_ms);
        self.requests_per_second = self.requests_per_second.plus(other.requests_per_second);
        match (&mut self.cost, &other.cost) {
            (Some(own), Some(other)) => own.add(other),
            (own, other) => *own = own.take().or_else(|| other.clone()),
        }
        for (own, other) in self.operations.iter_mut().zip(&other.operations) {
            own.requests += other.requests;
            own.failures += other.failures;
            own.nanos += other.nanos;
            own.answered += other.answered;
        }
    }

    /// Requests of one kind.
    #[must_use]
    pub fn requests(&self, operation: StoreOperation) -> u64 {
        let of_kind = self.operations.iter();
        let of_kind = of_kind.filter(|figures| figures.operation == operation);
        of_kind.map(|figures| figures.requests).sum()
    }
}

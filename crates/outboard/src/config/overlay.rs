//! The keys of an export with an overlay for each client -> [`OverlayPlan`]. Pure.

use std::path::{Path, PathBuf};

use bucket::BucketUri;
use nbd::server::NamedBy;
use toml::Spanned;

use super::error::Slip;
use super::file::ExportTable;
use super::values::Values;
use crate::graph::{ByteSize, Disk};

/// Default of `overlay_quota`, bytes.
pub(crate) const QUOTA_DEFAULT: u64 = 2 << 30;
/// Least that an overlay may take: its own tables and some chunks, bytes.
pub(crate) const QUOTA_MIN: u64 = 1 << 20;
/// Most that an overlay may take, bytes.
pub(crate) const QUOTA_MAX: u64 = 1 << 50;
/// Default of `overlays_max`.
pub(crate) const OVERLAYS_DEFAULT: usize = 1024;
/// Largest `overlays_max`.
const OVERLAYS_MAX: usize = 65_536;

/// The error of a quota where there is none.
pub(crate) const NO_QUOTA: &str = "overlays on an object store have no quota";

/// Where overlays are kept, together with those of other exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OverlayPlace {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A folder of an object store: an overlay there is a clone of the export's volume.
    #[cfg(feature = "bucket")]
    Store(BucketUri),
}

impl OverlayPlace {
    /// The place with this path or URI.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn parse(text: &Path) -> Result<Self, String> {
        let Some(uri) = text.to_str().filter(|text| text.contains("://")) else {
            return Ok(Self::Folder(text.to_owned()));
        };
        let uri: BucketUri = uri.parse().map_err(|error| format!("{error}"))?;
        #[cfg(feature = "bucket")]
        {
            Ok(Self::Store(uri))
        }
        #[cfg(not(feature = "bucket"))]
        {
            Err(format!(
                "cannot keep overlays at {uri}: this outboard was built without volumes on object stores (the feature `bucket`)"
            ))
        }
    }

    /// Whether overlays there have a quota.
    pub(crate) const fn has_quota(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    /// Refuses a disk that no overlay there can be over.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, disk: &Disk) -> Result<(), &'static str> {
        match self.has_quota() || matches!(disk.without_blocks(), Disk::Bucket(_)) {
            true => Ok(()),
            false => Err(
                "overlays on an object store are clones of a volume there (s3://…, file:///…), and this disk is none",
            ),
        }
    }
}

/// Where the overlays of an export's clients are, and how many and how large they may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OverlayPlan {
    /// Where they are.
    pub(crate) place: OverlayPlace,
    /// What identifies a client.
    pub(crate) named_by: NamedBy,
    /// What each may take in a folder, bytes.
    pub(crate) quota: u64,
    /// How many there may be over one image.
    pub(crate) overlays_max: usize,
}

impl OverlayPlan {
    /// The defaults, at `place`.
    pub(crate) fn at(place: OverlayPlace) -> Self {
        Self {
            place,
            named_by: NamedBy::default(),
            quota: QUOTA_DEFAULT,
            overlays_max: OVERLAYS_DEFAULT,
        }
    }
}

/// The overlay keys of an export.
pub(super) fn overlay(
    values: Values<'_>,
    table: &ExportTable,
) -> Result<Option<OverlayPlan>, Slip> {
    let Some(kind) = &table.overlay else {
        return match stray(table) {
            Some(at) => {
                let what = "it requires `overlay = \"per-client\"`";
                Err(Slip::at(values.0, at, what))
            }
            None => Ok(None),
        };
    };
    if kind.get_ref() != "per-client" {
        return Err(values.slip(kind, "the only kind of overlay here is \"per-client\""));
    }
    let directory = table.overlay_directory.as_ref();
    let directory = directory.ok_or_else(|| {
        let what = "write `overlay_directory` with the folder that overlays are kept in";
        values.slip(kind, what)
    })?;
    if directory.get_ref().as_os_str().is_empty() {
        return Err(values.slip(directory, "not the path of a folder"));
    }
    if table.read_only {
        let what = "with overlays clients write, and the disk itself is read-only in any case: \
                    omit `read_only`";
        return Err(values.slip(kind, what));
    }
    let place = OverlayPlace::parse(directory.get_ref());
    let mut plan = OverlayPlan::at(place.map_err(|why| values.slip(directory, why))?);
    if let Some(name) = &table.overlay_name {
        plan.named_by = match name.get_ref().as_str() {
            "certificate" => NamedBy::Certificate,
            "address" => NamedBy::Address,
            _ => return Err(values.slip(name, "not \"certificate\" and not \"address\"")),
        };
    }
    if let Some(quota) = &table.overlay_quota {
        if !plan.place.has_quota() {
            return Err(values.slip(quota, NO_QUOTA));
        }
        plan.quota = values.size(quota, QUOTA_MIN..=QUOTA_MAX)?;
    }
    if let Some(max) = &table.overlays_max {
        plan.overlays_max = values.count(max, 1..=OVERLAYS_MAX)?;
    }
    Ok(Some(plan))
}

/// Where the first key is that says nothing without the others.
fn stray(table: &ExportTable) -> Option<usize> {
    fn place<T>(key: Option<&Spanned<T>>) -> Option<usize> {
        key.map(|key| key.span().start)
    }
    let places = [
        place(table.overlay_directory.as_ref()),
        place(table.overlay_name.as_ref()),
        place(table.overlay_quota.as_ref()),
        place(table.overlays_max.as_ref()),
    ];
    places.into_iter().flatten().min()
}

/// `--overlay-quota`.
pub(crate) fn quota(text: &str) -> Result<u64, String> {
    let size = text.parse::<ByteSize>().map_err(|e| e.to_string())?.0;
    if (QUOTA_MIN..=QUOTA_MAX).contains(&size) {
        return Ok(size);
    }
    let (min, max) = (ByteSize(QUOTA_MIN), ByteSize(QUOTA_MAX));
    Err(format!("not a size from {min} to {max}, like 2G"))
}

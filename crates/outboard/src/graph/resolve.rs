//! [`Expression`] -> [`Disk`]: what each name and word means. Pure: nothing is opened.

use std::path::PathBuf;

use bucket::VolumeUri;
use engine::rbd::ImageSpec;
use nbd::client::limits;

use super::arguments::Arguments;
use super::arrays;
use super::catalog::{self, CallKind, CatalogEntry};
use super::disk::{BucketDisk, BucketJournal, CachedDisk, Disk, NamedDisk, Overlay, RbdDisk};
use super::error::{ExpressionError, ExpressionProblem};
use super::faults;
use super::parse::parse_named;
use super::size::SECTOR;
use super::syntax::{Call, Expression, Span, Word};
use super::volumes;

/// Largest number of a partition: what GPT's own header can count.
const PARTITION_MAX: usize = u32::MAX as usize;
/// Default chunk size of a stripe, bytes.
const CHUNK: u64 = 64 << 10;
/// Bytes of one turn of a stripe, or of one exception of an overlay.
const CHUNKS: std::ops::RangeInclusive<u64> = SECTOR..=(1 << 30);
/// Bytes that are read ahead.
const READ_AHEAD: std::ops::RangeInclusive<u64> = (4 << 10)..=(64 << 20);
/// Bytes of a journal of a volume, and those of one that is made without a size.
const JOURNALS: std::ops::RangeInclusive<u64> = (1 << 20)..=(16 << 30);
const JOURNAL: u64 = 128 << 20;
/// Bytes that an overlay or a cache may take.
const QUOTAS: std::ops::RangeInclusive<u64> = (1 << 20)..=(1 << 62);

/// Parses `text` and gives its names their meaning.
pub(crate) fn resolve(text: &str) -> Result<NamedDisk, ExpressionError> {
    let named = parse_named(text)?;
    let disk =
        disk(&named.disk).map_err(|(span, problem)| ExpressionError::new(text, span, problem))?;
    Ok(NamedDisk {
        text: text.to_owned(),
        name: named.name.map(|name| name.text),
        disk,
    })
}

/// The disk of `[NAME=]DISK`, written so that it can be an argument of a call.
pub(crate) fn as_argument(text: &str) -> Result<String, ExpressionError> {
    Ok(parse_named(text)?.disk.to_string())
}

type Resolved<T> = Result<T, (Span, ExpressionProblem)>;

fn disk(expression: &Expression) -> Resolved<Disk> {
    match expression {
        Expression::Word(word) => leaf(word),
        Expression::Call(call) => self::call(call),
    }
}

/// A URI or a path.
fn leaf(word: &Word) -> Resolved<Disk> {
    let span = word.span;
    if word.text.starts_with(catalog::RBD) {
        return Ok(Disk::Rbd(image(word)?));
    }
    let scheme = word.text.split_once("://").map(|(scheme, _)| scheme);
    let Some(scheme) = scheme.filter(|scheme| is_scheme(scheme)) else {
        let path = PathBuf::from(&word.text);
        return Ok(Disk::File {
            path,
            direct: false,
            read_only: false,
            span,
        });
    };
    let lower = scheme.to_ascii_lowercase();
    if bucket::SCHEMES.contains(&lower.as_str()) {
        let uri = word.text.parse();
        let uri: VolumeUri = uri.map_err(|error| (span, ExpressionProblem::uri(error)))?;
        return Ok(Disk::Bucket(BucketDisk {
            read_only: uri.snapshot.is_some(),
            uri,
            ca: None,
            key: None,
            journal: None,
            span,
        }));
    }
    if !catalog::SCHEMES.contains(&lower.as_str()) {
        return Err((span, ExpressionProblem::UnknownScheme { scheme: lower }));
    }
    let target = word.text.parse();
    let target = target.map_err(|error| (span, ExpressionProblem::uri(error)))?;
    Ok(Disk::Remote {
        target,
        connections: None,
        timeout: None,
        read_ahead: None,
        read_only: false,
        span,
    })
}

/// RFC 3986, section 3.1. A path may hold `://` too, behind a slash.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn call(call: &Call) -> Resolved<Disk> {
    let kind = kind(&call.name)?;
    let mut arguments = Arguments::of(call, kind.usage())?;
    let disk = made(kind, call.span, &mut arguments)?;
    arguments.finish()?;
    Ok(disk)
}

fn made(kind: CallKind, span: Span, arguments: &mut Arguments<'_>) -> Resolved<Disk> {
    let disk = match kind {
        CallKind::File => file(arguments)?,
        CallKind::Memory => Disk::Memory {
            size: arguments.disk_size("SIZE")?,
            read_only: arguments.switch("read-only")?,
        },
        CallKind::Null => Disk::Null(arguments.disk_size("SIZE")?),
        CallKind::Zero => Disk::Zero(arguments.disk_size("SIZE")?),
        CallKind::Error => Disk::Error(arguments.disk_size("SIZE")?),
        CallKind::Remote => remote(arguments)?,
        CallKind::Bucket => Disk::Bucket(volume_on_store(arguments)?),
        CallKind::Rbd => Disk::Rbd(image_with_options(arguments)?),
        CallKind::Blocks => Disk::Blocks {
            disk: child(arguments)?,
            size: arguments.block_size("size")?,
        },
        CallKind::Partition => Disk::Partition {
            disk: child(arguments)?,
            number: partition_number(arguments)?,
            span,
        },
        CallKind::Linear => Disk::Linear {
            disks: children(arguments)?,
            span,
        },
        CallKind::Stripe => Disk::Stripe {
            disks: children(arguments)?,
            chunk: arguments.size("chunk", CHUNKS)?.unwrap_or(CHUNK),
            trim: arguments.switch("trim")?,
            span,
        },
        CallKind::Delay => Disk::Delay {
            disk: child(arguments)?,
            times: faults::delay(arguments)?,
        },
        CallKind::Throttle => Disk::Throttle {
            disk: child(arguments)?,
            rates: faults::throttle(arguments)?,
        },
        CallKind::Fault => Disk::Fault {
            disk: child(arguments)?,
            plan: faults::fault(arguments)?,
        },
        CallKind::Array => Disk::Array(arrays::array(arguments, span, disk)?),
        CallKind::Volume => Disk::Volume(volumes::volume(arguments, span, disk)?),
        CallKind::Overlay => Disk::Overlay(overlay(arguments)?),
        CallKind::Cache => Disk::Cache(cached(arguments)?),
        CallKind::Dm => {
            let word = arguments.word("TABLE-FILE")?;
            Disk::Dm {
                path: PathBuf::from(&word.text),
                span: word.span,
            }
        }
    };
    Ok(disk)
}

/// What a name makes.
fn kind(word: &Word) -> Resolved<CallKind> {
    let name = word.text.as_str();
    let problem = match catalog::find(name) {
        Some(CatalogEntry { kind, .. }) => return Ok(*kind),
        None => {
            let names = catalog::ENTRIES.iter().map(|entry| entry.name);
            let suggestion = catalog::similar(name, names);
            let name = name.to_owned();
            ExpressionProblem::UnknownDisk { name, suggestion }
        }
    };
    Err((word.span, problem))
}

fn child(arguments: &mut Arguments<'_>) -> Resolved<Box<Disk>> {
    Ok(Box::new(disk(arguments.disk("DISK")?)?))
}

fn children(arguments: &mut Arguments<'_>) -> Resolved<Vec<Disk>> {
    arguments.disks("DISK")?.into_iter().map(disk).collect()
}

fn partition_number(arguments: &mut Arguments<'_>) -> Resolved<u32> {
    let number = arguments.number("NUMBER", PARTITION_MAX)?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

fn file(arguments: &mut Arguments<'_>) -> Resolved<Disk> {
    let word = arguments.word("PATH")?;
    Ok(Disk::File {
        path: PathBuf::from(&word.text),
        direct: arguments.switch("direct")?,
        read_only: arguments.switch("read-only")?,
        span: word.span,
    })
}

fn remote(arguments: &mut Arguments<'_>) -> Resolved<Disk> {
    let word = arguments.word("URI")?;
    let Disk::Remote { target, span, .. } = leaf(word)? else {
        let schemes = catalog::schemes();
        return Err((word.span, ExpressionProblem::NotRemote { schemes }));
    };
    Ok(Disk::Remote {
        target,
        connections: arguments.count("connections", limits::CONNECTIONS_MAX)?,
        timeout: arguments.time("timeout")?,
        read_ahead: arguments.size("read-ahead", READ_AHEAD)?,
        read_only: arguments.switch("read-only")?,
        span,
    })
}

fn volume_on_store(arguments: &mut Arguments<'_>) -> Resolved<BucketDisk> {
    let word = arguments.word("URI")?;
    let Disk::Bucket(disk) = leaf(word)? else {
        return Err((word.span, ExpressionProblem::NotAVolumeUri));
    };
    let ca = arguments.keyed_word("ca", "the path of a file of certificates")?;
    let key = arguments.keyed_word("key", "the path of a key file")?;
    let read_only = arguments.switch("read-only")? || disk.read_only;
    Ok(BucketDisk {
        ca: ca.map(|path| PathBuf::from(&path.text)),
        key: key.map(|path| PathBuf::from(&path.text)),
        read_only,
        journal: journal(arguments, word.span, read_only)?,
        ..disk
    })
}

/// The journal of a volume. It is never used by its name alone: that changes what a flush is.
fn journal(
    arguments: &mut Arguments<'_>,
    at: Span,
    read_only: bool,
) -> Resolved<Option<BucketJournal>> {
    let word = arguments.keyed_word("journal", "the path of a file")?;
    let size = arguments.size("journal-size", JOURNALS)?;
    let is_local = arguments.choice("durability", &["store", "local"])? == Some(1);
    let Some(word) = word else {
        return match is_local || size.is_some() {
            false => Ok(None),
            true => Err((at, ExpressionProblem::NoJournal)),
        };
    };
    if !is_local || read_only {
        return Err((word.span, ExpressionProblem::UnusedJournal));
    }
    Ok(Some(BucketJournal {
        file: PathBuf::from(&word.text),
        size: size.unwrap_or(JOURNAL),
    }))
}

/// An image of Ceph, with `rbd:` before its name or without.
fn image(word: &Word) -> Resolved<RbdDisk> {
    let text = word.text.strip_prefix(catalog::RBD).unwrap_or(&word.text);
    let name = text.parse();
    let name = name.map_err(|error| (word.span, ExpressionProblem::uri(error)))?;
    Ok(RbdDisk {
        spec: ImageSpec {
            name,
            conf: None,
            id: None,
            cluster: None,
            read_only: false,
        },
        span: word.span,
    })
}

fn image_with_options(arguments: &mut Arguments<'_>) -> Resolved<RbdDisk> {
    let mut disk = image(arguments.word("POOL/IMAGE")?)?;
    let mut text = |key, expected| {
        let word = arguments.keyed_word(key, expected)?;
        Ok(word.map(|word| word.text.clone()))
    };
    disk.spec.conf = text("conf", "the path of a ceph.conf")?.map(PathBuf::from);
    disk.spec.id = text("id", "the name of a user")?;
    disk.spec.cluster = text("cluster", "the name of a cluster")?;
    disk.spec.read_only = arguments.switch("read-only")?;
    Ok(disk)
}

fn overlay(arguments: &mut Arguments<'_>) -> Resolved<Overlay> {
    let base = Box::new(disk(arguments.disk("BASE")?)?);
    let word = arguments.word("TOP")?;
    let chunk = arguments.size("chunk", CHUNKS)?;
    Ok(Overlay {
        base,
        top: PathBuf::from(&word.text),
        chunk: chunk.map(|chunk| u32::try_from(chunk).unwrap_or(u32::MAX)),
        quota: arguments.size("quota", QUOTAS)?,
        span: word.span,
    })
}

fn cached(arguments: &mut Arguments<'_>) -> Resolved<CachedDisk> {
    let disk = child(arguments)?;
    let word = arguments.word("FILE")?;
    Ok(CachedDisk {
        disk,
        file: PathBuf::from(&word.text),
        size: arguments.size("size", QUOTAS)?,
        profile: arguments
            .keyed_word("profile", "the path of a file")?
            .map(|path| PathBuf::from(&path.text)),
        span: word.span,
    })
}

/// `disk` with a cache in front of it, written as an expression: the file, its size, and a boot profile. Options of a remote disk that is a plain URI are
/// those of `remote`.
pub(crate) fn with_cache(
    disk: &str,
    remote: &[(&str, String)],
    (file, size, profile): (&str, Option<u64>, Option<&str>),
) -> Result<String, ExpressionError> {
    let word = |text: &str| {
        let span = Span { start: 0, end: 0 };
        let text = text.to_owned();
        Expression::Word(Word { text, span }).to_string()
    };
    let expression = parse_named(disk)?.disk;
    let is_uri = matches!(&expression, Expression::Word(word) if word.text.contains("://"));
    let disk = match is_uri {
        true => {
            let options = remote.iter().map(|(key, value)| format!(", {key}={value}"));
            format!("remote({expression}{})", options.collect::<String>())
        }
        false => expression.to_string(),
    };
    let size = size
        .map(|size| format!(", size={size}"))
        .unwrap_or_default();
    let profile = profile
        .map(|profile| format!(", profile={}", word(profile)))
        .unwrap_or_default();
    Ok(format!("cache({disk}, {}{size}{profile})", word(file)))
}

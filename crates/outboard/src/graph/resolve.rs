//! [`Expression`] -> [`Disk`]: what each name and word means. Pure: nothing is opened.

use std::path::PathBuf;

use nbd::client::{Target, limits};

use super::arguments::Arguments;
use super::catalog::{self, Entry, Kind};
use super::error::{ExpressionError, Problem};
use super::parse::parse_named;
use super::size::ByteSize;
use super::syntax::{Call, Expression, Span, Word};

/// A disk to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Disk {
    /// A file or a block device.
    File {
        /// Its path.
        path: PathBuf,
        /// Past the page cache.
        direct: bool,
        /// Never written.
        read_only: bool,
        /// Where the path stands in the text.
        span: Span,
    },
    /// RAM, so many bytes.
    Memory(ByteSize),
    /// Discards writes, reads zeroes; so many bytes.
    Null(ByteSize),
    /// An export of another server.
    Remote {
        /// Which.
        target: Target,
        /// Connections wanted, if not as many as usual.
        connections: Option<usize>,
        /// Never written.
        read_only: bool,
        /// Where its URI stands in the text.
        span: Span,
    },
    /// Another disk, in blocks of another size.
    Blocks {
        /// The other one.
        disk: Box<Self>,
        /// The size, bytes: a power of two.
        size: u32,
    },
}

impl Disk {
    /// Whether this disk can be kept from being written.
    pub(crate) const fn can_be_read_only(&self) -> bool {
        match self {
            Self::File { .. } | Self::Remote { .. } => true,
            Self::Memory(_) | Self::Null(_) => false,
            Self::Blocks { disk, .. } => disk.can_be_read_only(),
        }
    }
}

impl Disk {
    /// The disk at the bottom, which holds the bytes.
    pub(crate) fn leaf(&self) -> &Self {
        match self {
            Self::Blocks { disk, .. } => disk.leaf(),
            leaf => leaf,
        }
    }
}

/// `[NAME=]DISK`, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedDisk {
    /// The whole text, for messages.
    pub(crate) text: String,
    /// The name, if given.
    pub(crate) name: Option<String>,
    /// The disk.
    pub(crate) disk: Disk,
}

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

type Resolved<T> = Result<T, (Span, Problem)>;

fn disk(expression: &Expression) -> Resolved<Disk> {
    match expression {
        Expression::Word(word) => leaf(word),
        Expression::Call(call) => self::call(call),
    }
}

/// A URI or a path.
fn leaf(word: &Word) -> Resolved<Disk> {
    let span = word.span;
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
    let problem = match catalog::SCHEMES.iter().find(|(known, _)| *known == lower) {
        Some((_, true)) => match word.text.parse() {
            Ok(target) => {
                return Ok(Disk::Remote {
                    target,
                    connections: None,
                    read_only: false,
                    span,
                });
            }
            Err(error) => Problem::uri(error),
        },
        Some((_, false)) => Problem::NotBuilt {
            name: format!("{lower}://"),
        },
        None => Problem::UnknownScheme { scheme: lower },
    };
    Err((span, problem))
}

/// RFC 3986, section 3.1. A path may hold `://` too, behind a slash.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn call(call: &Call) -> Resolved<Disk> {
    let name = call.name.text.as_str();
    let kind = match catalog::find(name) {
        Some(Entry {
            kind: Some(kind), ..
        }) => *kind,
        Some(Entry { kind: None, .. }) => {
            let name = name.to_owned();
            return Err((call.name.span, Problem::NotBuilt { name }));
        }
        None => {
            let names = catalog::ENTRIES.iter().map(|entry| entry.name);
            let suggestion = catalog::similar(name, names);
            let name = name.to_owned();
            return Err((call.name.span, Problem::UnknownDisk { name, suggestion }));
        }
    };
    let mut arguments = Arguments::of(call, kind.usage())?;
    let disk = match kind {
        Kind::File => file(&mut arguments)?,
        Kind::Memory => Disk::Memory(arguments.disk_size("SIZE")?),
        Kind::Null => Disk::Null(arguments.disk_size("SIZE")?),
        Kind::Remote => remote(&mut arguments)?,
        Kind::Blocks => Disk::Blocks {
            disk: Box::new(disk(arguments.disk("DISK")?)?),
            size: arguments.block_size("size")?,
        },
    };
    arguments.finish()?;
    Ok(disk)
}

fn remote(arguments: &mut Arguments<'_>) -> Resolved<Disk> {
    let word = arguments.word("URI")?;
    let Disk::Remote { target, span, .. } = leaf(word)? else {
        let schemes = catalog::built_schemes();
        return Err((word.span, Problem::NotRemote { schemes }));
    };
    Ok(Disk::Remote {
        target,
        connections: arguments.count("connections", limits::CONNECTIONS_MAX)?,
        read_only: arguments.switch("read-only")?,
        span,
    })
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

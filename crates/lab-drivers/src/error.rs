//! [`DriverError`]: what failed, on what, and what to do next.

use std::error::Error;
use std::fmt;

/// A step of a driver that failed.
#[derive(Debug)]
pub struct DriverError {
    /// What failed, on what; empty where the source says all of it.
    pub what: String,
    /// The cause.
    pub source: Option<Box<dyn Error + Send + Sync>>,
    /// What to do next.
    pub next: Option<String>,
    /// Lines that show the place in an expression.
    pub pictures: Vec<String>,
    /// Whether the command line alone is wrong.
    pub is_usage: bool,
}

impl DriverError {
    /// Something could not be done.
    pub fn new(what: impl fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            source: None,
            next: None,
            pictures: Vec::new(),
            is_usage: false,
        }
    }

    /// Something could not be done, because of `error`.
    pub fn because(what: impl fmt::Display, error: impl Error + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Box::new(error)),
            ..Self::new(what)
        }
    }

    /// `error` says all there is to say.
    pub fn from_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self::because("", error)
    }

    /// The command line makes no sense.
    pub fn usage(what: impl fmt::Display) -> Self {
        Self {
            is_usage: true,
            ..Self::new(what)
        }
    }

    /// The same with what to do next.
    #[must_use]
    pub fn next(self, next: impl fmt::Display) -> Self {
        Self {
            next: Some(next.to_string()),
            ..self
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(source) = &self.source {
            let colon = if self.what.is_empty() { "" } else { ": " };
            write!(f, "{colon}{source}")?;
        }
        match &self.next {
            Some(next) => write!(f, "; {next}"),
            None => Ok(()),
        }
    }
}

impl Error for DriverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}

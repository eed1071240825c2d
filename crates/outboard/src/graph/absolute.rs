//! [`absolute`]: a disk as it is written for a process that may run in another directory.
//!
//! # Invariants
//!
//! * What is not a relative path is written as before, but for blanks and quotes.
//!
//! # What it does not do
//!
//! It reads no file: paths in a table of device-mapper are left to the process that opens it.

use std::io;
use std::path::Path;

use super::builder::lasting;
use super::disk::{Disk, NamedDisk};
use super::parse::parse_named;
use super::syntax::{Argument, Expression, Span, Word};

/// Keys of paths that are no disks.
const PATH_KEYS: [&str; 4] = ["ca", "conf", "profile", "pulled-while"];
/// Key of a value that repeats a disk of the same call.
const DISK_KEY: &str = "prefer";

/// A word that is written otherwise.
type Replacement = (Span, String);

/// The disk with absolute paths, without its name. Reads the working directory.
///
/// # Errors
/// A working directory that cannot be read, or with a name that is not UTF-8.
pub(crate) fn absolute(named: &NamedDisk) -> io::Result<String> {
    let mut replacements = Vec::new();
    collect(&named.disk, &mut replacements)?;
    let parsed = parse_named(&named.text).map_err(|error| io::Error::other(error.to_string()))?;
    let mut disk = parsed.disk;
    replace(&mut disk, &replacements)?;
    Ok(match disk {
        // A text that begins so is a path up to its end.
        Expression::Word(Word { text, .. }) if text.starts_with('/') => text,
        other => other.to_string(),
    })
}

fn collect(disk: &Disk, into: &mut Vec<Replacement>) -> io::Result<()> {
    match disk {
        Disk::File { path, span, .. } | Disk::Dm { path, span } => into.push((*span, text(path)?)),
        Disk::Overlay(overlay) => into.push((overlay.span, text(&overlay.top)?)),
        Disk::Cache(cached) => into.push((cached.span, text(&cached.file)?)),
        Disk::Remote { target, span, .. } => {
            let lasting = lasting(target.clone())?;
            if lasting != *target {
                into.push((*span, lasting.to_string()));
            }
        }
        _ => {}
    }
    let mut children = disk.children().iter();
    children.try_for_each(|child| collect(child, into))
}

fn text(path: &Path) -> io::Result<String> {
    let path = std::path::absolute(path)?.into_os_string();
    let path = path.into_string();
    path.map_err(|path| io::Error::other(format!("{} is not UTF-8", path.display())))
}

fn replace(expression: &mut Expression, by: &[Replacement]) -> io::Result<()> {
    let call = match expression {
        Expression::Word(word) => {
            if let Some((_, text)) = by.iter().find(|(span, _)| *span == word.span) {
                word.text.clone_from(text);
            }
            return Ok(());
        }
        Expression::Call(call) => call,
    };
    let before: Vec<String> = call.arguments.iter().map(written).collect();
    for argument in &mut call.arguments {
        match (&argument.key, &mut argument.value) {
            (Some(key), Expression::Word(word)) if PATH_KEYS.contains(&key.text.as_str()) => {
                word.text = text(Path::new(&word.text))?;
            }
            (_, value) => replace(value, by)?,
        }
    }
    let after: Vec<String> = call.arguments.iter().map(written).collect();
    for argument in &mut call.arguments {
        if let (Some(key), Expression::Word(word)) = (&argument.key, &mut argument.value)
            && key.text == DISK_KEY
            && let Some(at) = before.iter().position(|before| *before == word.text)
        {
            word.text.clone_from(&after[at]);
        }
    }
    Ok(())
}

/// A value, without the quotes of a word.
fn written(argument: &Argument) -> String {
    match &argument.value {
        Expression::Word(word) => word.text.clone(),
        call @ Expression::Call(_) => call.to_string(),
    }
}

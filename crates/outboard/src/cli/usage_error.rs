//! Errors of clap as [`Failure`]s: one line each.
//!
//! clap reports what is wrong as an [`ErrorKind`] and a list of [`ContextKind`]s. The message is built from these;
//! clap's own rendering, which has several lines and may change with any release, is used for help and version only.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;

/// The failure that `error` stands for, with exit status 2.
pub(crate) fn failure(error: &clap::Error) -> Failure {
    Failure::usage(describe(error)).next(suggest(error))
}

/// An error of a check that clap cannot make; `next` is what to write instead.
pub(crate) fn conflict(what: String, next: &str) -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::ArgumentConflict);
    error.insert(ContextKind::Custom, ContextValue::String(what));
    let next = ContextValue::StyledStrs(vec![next.to_owned().into()]);
    error.insert(ContextKind::Suggested, next);
    error
}

/// What is wrong.
fn describe(error: &clap::Error) -> String {
    if let Some(message) = context(error, ContextKind::Custom) {
        return message;
    }
    let value_of = |kind| context(error, kind).unwrap_or_default();
    let argument = value_of(ContextKind::InvalidArg);
    let value = value_of(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("a value is required for '{argument}' but none was supplied")
        }
        ErrorKind::InvalidValue => format!("invalid value '{value}' for '{argument}'"),
        ErrorKind::ValueValidation => match std::error::Error::source(error) {
            Some(source) => format!("invalid value '{value}' for '{argument}': {source}"),
            None => format!("invalid value '{value}' for '{argument}'"),
        },
        ErrorKind::UnknownArgument => format!("unexpected argument '{argument}' found"),
        ErrorKind::InvalidSubcommand => {
            let command = value_of(ContextKind::InvalidSubcommand);
            format!("unrecognized subcommand '{command}'")
        }
        ErrorKind::NoEquals => {
            format!("an equals sign is required between '{argument}' and its value")
        }
        ErrorKind::TooManyValues => {
            format!("unexpected value '{value}' for '{argument}'; no more were expected")
        }
        ErrorKind::TooFewValues => {
            let least = value_of(ContextKind::MinValues);
            let actual = value_of(ContextKind::ActualNumValues);
            format!("'{argument}' requires at least {least} values, {actual} supplied")
        }
        ErrorKind::WrongNumberOfValues => {
            let expected = value_of(ContextKind::ExpectedNumValues);
            let actual = value_of(ContextKind::ActualNumValues);
            format!("'{argument}' requires {expected} values, {actual} supplied")
        }
        ErrorKind::ArgumentConflict if value_of(ContextKind::PriorArg) == argument => {
            format!("the argument '{argument}' cannot be used multiple times")
        }
        ErrorKind::ArgumentConflict => {
            let others = names(error, ContextKind::PriorArg).unwrap_or_default();
            format!("the argument '{argument}' cannot be used with {others}")
        }
        ErrorKind::MissingRequiredArgument => {
            format!("the following required arguments were not provided: {argument}")
        }
        ErrorKind::MissingSubcommand => "no command".to_owned(),
        ErrorKind::InvalidUtf8 => "an argument is not valid UTF-8".to_owned(),
        other => other.to_string(),
    }
}

/// What to write instead: clap's suggestions, the possible values, or the usage.
fn suggest(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::MissingSubcommand {
        let parent = context(error, ContextKind::InvalidSubcommand);
        return format!("{} --help lists them", parent.unwrap_or_default());
    }
    let similar = [
        (ContextKind::SuggestedSubcommand, "subcommand"),
        (ContextKind::SuggestedArg, "argument"),
        (ContextKind::SuggestedValue, "value"),
    ];
    let similar = similar.into_iter().filter_map(|(kind, noun)| {
        Some(format!("a similar {noun} exists: {}", names(error, kind)?))
    });
    let tips: Vec<String> = similar
        .chain(context(error, ContextKind::Suggested))
        .chain(
            context(error, ContextKind::ValidValue)
                .map(|values| format!("possible values: {values}")),
        )
        .collect();
    if !tips.is_empty() {
        return tips.join(", ");
    }
    match context(error, ContextKind::Usage) {
        Some(usage) => usage_line(&usage),
        None => "see --help".to_owned(),
    }
}

/// The value of one context, if `error` has it and it is not empty.
fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    let value = error.get(kind)?.to_string();
    Some(value).filter(|value| !value.is_empty())
}

/// One or several names, each in quotes.
fn names(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::Strings(names) if names.is_empty() => None,
        ContextValue::Strings(names) => Some(format!("'{}'", names.join("', '"))),
        name => Some(format!("'{name}'")),
    }
}

/// The first usage of a context [`ContextKind::Usage`], which begins with a heading.
fn usage_line(usage: &str) -> String {
    let first = usage.lines().next().unwrap_or_default();
    let line = first.split_once(": ").map_or(first, |(_, line)| line);
    format!("usage: {line}")
}

#[cfg(test)]
mod tests;

//! Tests of the message of each kind of usage error.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::error::ErrorKind;
use clap::{Arg, Command};

use super::failure;
use crate::cli;

/// Command lines of outboard, and the kind and the whole message of their error.
const REFUSED: &[(&[&str], ErrorKind, &str)] = &[
    (
        &["serve", "m", "--engine", "steam"],
        ErrorKind::InvalidValue,
        "invalid value 'steam' for '--engine <KIND>'; possible values: auto, uring, threads",
    ),
    (
        &["serve", "m", "--engine", "urin"],
        ErrorKind::InvalidValue,
        "invalid value 'urin' for '--engine <KIND>'; a similar value exists: 'uring', \
         possible values: auto, uring, threads",
    ),
    (
        &["serve", "m", "--listen"],
        ErrorKind::InvalidValue,
        "a value is required for '--listen <WHERE>' but none was supplied; see --help",
    ),
    (
        &["serve", "m", "--cores", "99"],
        ErrorKind::ValueValidation,
        "invalid value '99' for '--cores <N>': at most 64 are used; see --help",
    ),
    (
        &["serve", "m", "--no"],
        ErrorKind::UnknownArgument,
        "unexpected argument '--no' found; to pass '--no' as a value, use '-- --no'",
    ),
    (
        &["serve", "m", "--engin", "uring"],
        ErrorKind::UnknownArgument,
        "unexpected argument '--engin' found; a similar argument exists: '--engine'",
    ),
    (
        &["status", "x"],
        ErrorKind::UnknownArgument,
        "unexpected argument 'x' found; usage: outboard status [OPTIONS]",
    ),
    (
        &["serv"],
        ErrorKind::InvalidSubcommand,
        "unrecognized subcommand 'serv'; a similar subcommand exists: 'serve'",
    ),
    (
        &["disk", "x"],
        ErrorKind::InvalidSubcommand,
        "unrecognized subcommand 'x'; usage: outboard disk [OPTIONS] <COMMAND>",
    ),
    (
        &["attach", "x", "--json=3"],
        ErrorKind::TooManyValues,
        "unexpected value '3' for '--json'; no more were expected; \
         usage: outboard attach --json [URI|DISK]",
    ),
    (
        &["detach", "x", "--all"],
        ErrorKind::ArgumentConflict,
        "the argument '[DEVICE|DIR]' cannot be used with '--all'; \
         usage: outboard detach <DEVICE|DIR>",
    ),
    (
        &["serve", "m", "--config", "a", "--config", "b"],
        ErrorKind::ArgumentConflict,
        "the argument '--config <FILE>' cannot be used multiple times; \
         usage: outboard serve [OPTIONS] [[NAME=]DISK]...",
    ),
    (
        &["disk", "create", "a", "1M", "--fs", "ext4", "--fs", "xfs"],
        ErrorKind::ArgumentConflict,
        "--fs ext4 and --fs xfs are for the same place; each --part may have one behind it: \
         --part 512M:efi --fs vfat --part rest:linux --fs ext4",
    ),
    (
        &["lab", "run"],
        ErrorKind::MissingRequiredArgument,
        "the following required arguments were not provided: <PLAN>, <DIR|DISK>; \
         usage: outboard lab run <PLAN> <DIR|DISK>",
    ),
    (
        &[],
        ErrorKind::MissingSubcommand,
        "no command; outboard --help lists them",
    ),
    (
        &["--json"],
        ErrorKind::MissingSubcommand,
        "no command; outboard --help lists them",
    ),
    (
        &["disk"],
        ErrorKind::MissingSubcommand,
        "no command; outboard disk --help lists them",
    ),
];

#[test]
fn each_kind_of_error_has_a_message_of_one_line() {
    for (arguments, kind, message) in REFUSED {
        let line = ["outboard"].iter().chain(*arguments).map(OsString::from);
        let error = cli::read(line).expect_err("a wrong command line");
        assert_eq!(error.kind(), *kind, "{arguments:?}");
        assert_eq!(failure(&error).line(), *message, "{arguments:?}");
    }
}

#[test]
fn an_argument_that_is_not_utf_8_is_refused() {
    let line = ["outboard", "disk", "create", "a"].map(OsString::from);
    let size = OsString::from_vec(vec![b'1', 0xff]);
    let error = cli::read(line.into_iter().chain([size])).expect_err("no size");
    assert_eq!(error.kind(), ErrorKind::InvalidUtf8);
    assert_eq!(
        failure(&error).line(),
        "an argument is not valid UTF-8; usage: outboard disk create [OPTIONS] <PATH> <SIZE>"
    );
}

/// Kinds that no option of outboard has, so that one that gets them is not reported without its context.
#[test]
fn kinds_of_other_options_name_the_argument_and_the_counts() {
    let cases: [(Arg, &[&str], ErrorKind, &str); 4] = [
        (
            Arg::new("a").long("a").require_equals(true),
            &["p", "--a", "1"],
            ErrorKind::NoEquals,
            "an equals sign is required between '--a=<a>' and its value; usage: p [OPTIONS]",
        ),
        (
            Arg::new("a").long("a").num_args(2..),
            &["p", "--a", "1"],
            ErrorKind::TooFewValues,
            "'--a <a> <a>...' requires at least 2 values, 1 supplied; usage: p [OPTIONS]",
        ),
        (
            Arg::new("a").long("a").num_args(2),
            &["p", "--a", "1"],
            ErrorKind::WrongNumberOfValues,
            "'--a <a> <a>' requires 2 values, 1 supplied; usage: p [OPTIONS]",
        ),
        (
            Arg::new("a").long("a").conflicts_with_all(["b", "c"]),
            &["p", "--a", "1", "--b", "2", "--c", "3"],
            ErrorKind::ArgumentConflict,
            "the argument '--a <a>' cannot be used with '--b <b>', '--c <c>'; usage: p --a <a>",
        ),
    ];
    for (argument, line, kind, message) in cases {
        let others = ["b", "c"].map(|name| Arg::new(name).long(name));
        let command = Command::new("p").arg(argument).args(others);
        let error = command
            .try_get_matches_from(line)
            .expect_err("a wrong command line");
        assert_eq!(error.kind(), kind);
        assert_eq!(failure(&error).line(), message);
    }
}

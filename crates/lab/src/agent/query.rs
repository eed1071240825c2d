//! The directories of a request for fio, as a query: `in=%2Fmnt%2Fnbd&in=%2Fhome`. Pure.
//!
//! Every byte but letters, digits and `-._~` is written as `%XX` (RFC 3986, section 2), so that a path of
//! any bytes is one line of a head and is taken back as it was.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::protocol::FIO;

/// Directories of one request at most.
pub const DIRECTORIES_MAX: usize = 8;
/// What each begins with.
const KEY: &str = "in=";

/// The path of a request for fio that works in these directories.
#[must_use]
pub(crate) fn fio_in(directories: &[&Path]) -> String {
    let each = directories
        .iter()
        .map(|path| format!("{KEY}{}", encoded(path)));
    let query: Vec<String> = each.collect();
    match query.is_empty() {
        true => FIO.to_owned(),
        false => format!("{FIO}?{}", query.join("&")),
    }
}

/// The directories of a query; none if it is anything else.
#[must_use]
pub fn directories(query: Option<&str>) -> Option<Vec<PathBuf>> {
    let Some(query) = query else {
        return Some(Vec::new());
    };
    let each = query
        .split('&')
        .map(|pair| decoded(pair.strip_prefix(KEY)?));
    let paths: Vec<PathBuf> = each.collect::<Option<_>>()?;
    let is_whole = paths.iter().all(|path| path.is_absolute());
    (is_whole && paths.len() <= DIRECTORIES_MAX).then_some(paths)
}

fn encoded(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes().iter();
    let each = bytes.map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) => {
            char::from(*byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    each.collect()
}

fn decoded(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            bytes.push(*byte);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        // A sign is no digit, but a number may have one.
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(is_hex.then(|| u8::from_str_radix(digits, 16).ok())??);
        rest = &after[2..];
    }
    // The kernel's paths end there.
    let is_path = !bytes.is_empty() && !bytes.contains(&0);
    is_path.then(|| PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_absolute_path_is_refused() {
        let told = |query| directories(Some(query));
        assert_eq!(directories(None), Some(Vec::new()));
        assert_eq!(told("in=%2Fmnt"), Some(vec!["/mnt".into()]));
        assert_eq!(
            told("in=/a%20b&in=%2F"),
            Some(vec!["/a b".into(), "/".into()])
        );
        for query in [
            "",
            "in=",
            "in=mnt",
            "port=7",
            "in=/a&port=7",
            "in=/%",
            "in=/%+1",
            "in=/%zz",
            "in=/a%00",
        ] {
            assert_eq!(told(query), None, "{query}");
        }
        let many = ["in=/a"; DIRECTORIES_MAX + 1].join("&");
        assert_eq!(told(&many), None);
    }

    proptest! {
        #[test]
        fn paths_of_any_bytes_are_taken_back_as_they_were(
            paths in prop::collection::vec(prop::collection::vec(1u8.., 0..40), 0..=DIRECTORIES_MAX),
        ) {
            let of = |bytes: &Vec<u8>| PathBuf::from(OsStr::from_bytes(&[b"/", &bytes[..]].concat()));
            let paths: Vec<PathBuf> = paths.iter().map(of).collect();
            let asked: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
            let line = fio_in(&asked);
            prop_assert!(line.bytes().all(|byte| byte.is_ascii_graphic()));
            let query = line.split_once('?').map(|(_, query)| query);
            prop_assert_eq!(directories(query), Some(paths));
        }

        #[test]
        fn no_query_makes_it_panic(text in ".*") {
            std::hint::black_box(directories(Some(&text)).is_some());
        }
    }
}

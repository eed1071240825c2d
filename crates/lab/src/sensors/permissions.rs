//! Sensors that are there and that this user may not read. They give no samples, and a reader of a report
//! could not be distinguished from those that the machine has not got.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use super::sysfs::Places;

/// What is opened for the sensors that every machine has.
const FILES: [(&str, &str); 9] = [
    ("cpu", "/proc/stat"),
    ("disk", "/proc/diskstats"),
    ("net", "/proc/net/dev"),
    ("interrupts", "/proc/interrupts"),
    ("pressure", "/proc/pressure/cpu"),
    ("pressure", "/proc/pressure/io"),
    ("pressure", "/proc/pressure/memory"),
    ("load", "/proc/loadavg"),
    ("memory", "/proc/meminfo"),
];
/// There is a first process wherever processes are shown. The option `hidepid` of proc(5) hides those of others
/// as if they were not there.
const FIRST: &str = "/proc/1/stat";

/// The sensors that this user may not read, by name, each once.
#[must_use]
pub fn refused() -> Vec<&'static str> {
    let known = FILES.map(|(sensor, path)| (sensor, Path::new(path).to_owned()));
    let places = Places::find(Path::new("/"));
    let files = known.into_iter().chain(places.files());
    let asked = files.map(|(sensor, path)| (sensor, opened(&path)));
    let hides = opened(Path::new("/proc/self/stat")).is_ok() && opened(Path::new(FIRST)).is_err();
    let others = hides.then_some(("processes of others", Err(io::ErrorKind::PermissionDenied)));
    named(asked.chain(others))
}

fn opened(path: &Path) -> Result<(), io::ErrorKind> {
    let opened = OpenOptions::new().read(true).open(path);
    opened.map(drop).map_err(|error| error.kind())
}

/// Those that were refused. What is not there is none of them.
fn named(
    asked: impl Iterator<Item = (&'static str, Result<(), io::ErrorKind>)>,
) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for (sensor, opened) in asked {
        if opened == Err(io::ErrorKind::PermissionDenied) && !names.contains(&sensor) {
            names.push(sensor);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::named;

    #[test]
    fn what_is_refused_is_named_once_and_what_is_not_there_is_not() {
        let asked = [
            ("cpu", Ok(())),
            ("pressure", Err(ErrorKind::PermissionDenied)),
            ("pressure", Err(ErrorKind::PermissionDenied)),
            ("clock", Err(ErrorKind::NotFound)),
            ("throttle", Ok(())),
            ("throttle", Err(ErrorKind::PermissionDenied)),
        ];
        assert_eq!(named(asked.into_iter()), ["pressure", "throttle"]);
    }
}

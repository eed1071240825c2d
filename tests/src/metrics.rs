//! What servers answer by HTTP on the loopback: the metrics of a server of ours, as a scraper gets them, and what Prometheus knows.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What is behind a path; `None` where nothing answers in time, or with another status than 200.
#[must_use]
pub fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// The value of a series, which is a name with its labels; `None` where there is no such series.
///
/// # Panics
/// If nothing answers on `port`, or the value is no number.
#[must_use]
#[track_caller]
pub fn value<T: FromStr>(port: u16, series: &str) -> Option<T>
where
    T::Err: Debug,
{
    let metrics = get(port, "/metrics").expect("metrics");
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map(|value| value.parse().expect("a number"))
}

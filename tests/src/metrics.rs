//! Metrics of a server of ours, as a scraper gets them.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

/// How long a scrape may take.
const LIMIT: Duration = Duration::from_secs(10);

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
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("metrics");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    let request = b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).expect("a request to be taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let mut lines = answer.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map(|value| value.parse().expect("a number"))
}

//! As much of an HTTP client as an agent needs: one request after the other on one connection, answers
//! with a length, or lines until the end.
//!
//! Invariants: a head is at most [`HEAD_LEN_MAX`] bytes, an answer and a line at most [`ANSWER_LEN_MAX`];
//! anything longer ends the connection. Nothing here waits for longer than [`AnswerTimeout`] allows for any
//! single byte, or for longer than one read may take once the run was cancelled. A call that a signal interrupts
//! is made again here, so that no client of an agent has to.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::time::Duration;

use super::AgentError;
use super::protocol::{ANSWER_LEN_MAX, HEAD_LEN_MAX};
use crate::Cancel;

/// A connection that was dialled: bytes both ways, with timeouts of its own.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// How long an answer is waited for. Reads of the stream time out by themselves, much earlier than that.
#[derive(Debug, Clone)]
pub(super) struct AnswerTimeout {
    /// The longest silence.
    pub(super) silence_max: Duration,
    /// Ends the wait.
    pub(super) cancel: Cancel,
}

/// Head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) length: Option<usize>,
}

/// A connection to an agent.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    host: String,
    token: String,
    timeout: AnswerTimeout,
    /// Received and not yet used.
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) const fn new(
        stream: Box<dyn Stream>,
        host: String,
        token: String,
        timeout: AnswerTimeout,
    ) -> Self {
        Self {
            stream,
            host,
            token,
            timeout,
            buffer: Vec::new(),
        }
    }

    /// Sends a request and returns the body of the answer. The connection can be used again.
    pub(super) fn ask(&mut self, method: &str, path: &str) -> Result<Vec<u8>, AgentError> {
        self.send(method, path, "1.1")?;
        let head = self.head()?;
        let length = head
            .length
            .ok_or_else(|| AgentError::answer("an answer of no given length"))?;
        if length > ANSWER_LEN_MAX {
            return Err(AgentError::answer("an answer that is too long"));
        }
        while self.buffer.len() < length {
            self.receive()?;
        }
        let body: Vec<u8> = self.buffer.drain(..length).collect();
        refused(head.status, &body)?;
        Ok(body)
    }

    /// Requests lines without end. HTTP/1.0 has no chunks: what comes is the lines themselves.
    pub(super) fn lines(mut self, method: &str, path: &str) -> Result<Lines, AgentError> {
        self.send(method, path, "1.0")?;
        let head = self.head()?;
        if head.status != 200 {
            let length = head.length.unwrap_or(0).min(HEAD_LEN_MAX);
            while self.buffer.len() < length {
                self.receive()?;
            }
            refused(head.status, &self.buffer)?;
        }
        Ok(Lines(self))
    }

    fn send(&mut self, method: &str, path: &str, version: &str) -> io::Result<()> {
        let mut text = String::new();
        let close = if version == "1.0" {
            "close"
        } else {
            "keep-alive"
        };
        write!(
            text,
            "{method} {path} HTTP/{version}\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Connection: {close}\r\nContent-Length: 0\r\n\r\n",
            self.host, self.token
        )
        .map_err(io::Error::other)?;
        // It goes on by itself when it is interrupted.
        self.stream.write_all(text.as_bytes())?;
        uninterrupted(|| self.stream.flush())
    }

    fn head(&mut self) -> Result<Head, AgentError> {
        loop {
            if let Some((head, end)) = parse_head(&self.buffer).map_err(AgentError::answer)? {
                self.buffer.drain(..end);
                return Ok(head);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut piece = [0; 4096];
        let deadline = engine::clock::now() + self.timeout.silence_max;
        loop {
            match uninterrupted(|| self.stream.read(&mut piece)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.buffer.extend_from_slice(&piece[..len]);
                    return Ok(());
                }
                Err(error) if !is_timeout(&error) || engine::clock::now() >= deadline => {
                    return Err(error);
                }
                Err(_) if self.timeout.cancel.is_cancelled() => {
                    return Err(io::Error::other("the run was cancelled"));
                }
                Err(_) => {}
            }
        }
    }
}

/// A socket's read that timed out has one of these (socket(7) has EAGAIN).
fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Makes a call until no signal interrupts it. A socket with a timeout is not gone on with by the kernel
/// (signal(7)), and a ring that is closed interrupts the thread that had it.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Lines of an answer that does not end by itself.
pub(super) struct Lines(Connection);

impl Lines {
    /// The next line, without its end.
    pub(super) fn next_line(&mut self) -> Result<Vec<u8>, AgentError> {
        let mut searched = 0;
        loop {
            let buffer = &mut self.0.buffer;
            if let Some(at) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = buffer.drain(..=searched + at).collect();
                line.pop();
                return Ok(line);
            }
            if buffer.len() > ANSWER_LEN_MAX {
                return Err(AgentError::answer("a line that is too long"));
            }
            searched = buffer.len();
            self.0.receive()?;
        }
    }
}

fn refused(status: u16, body: &[u8]) -> Result<(), AgentError> {
    let reason = || {
        let text = String::from_utf8_lossy(body);
        let line = text.lines().next().unwrap_or_default();
        line.chars().filter(|c| !c.is_control()).take(200).collect()
    };
    match status {
        200 => Ok(()),
        401 => Err(AgentError::Token),
        403 => Err(AgentError::Forbidden(reason())),
        status => Err(AgentError::Refused {
            status,
            reason: reason(),
        }),
    }
}

/// The head that `bytes` begin with and where it ends; none if more is needed.
pub(super) fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, &'static str> {
    let within = &bytes[..bytes.len().min(HEAD_LEN_MAX)];
    let Some(end) = within.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match bytes.len() > HEAD_LEN_MAX {
            true => Err("a head that is too long"),
            false => Ok(None),
        };
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head that is no text")?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1."))
        .and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .ok_or("no HTTP")?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim().parse().map_err(|_| "a length that is none"))
        .transpose()?;
    Ok(Some((Head { status, length }, end + 4)))
}

//! The little of 9P2000.L that makes a file of some size: what ZeroFS serves by NBD is a file of its filesystem, and this needs no mount.
//!
//! Source of the numbers: the kernel's `include/net/9p/9p.h` and the protocol document of diod. Integers are little endian; a reply has the
//! type of its request plus one.

use std::io::{Read, Write};

use anyhow::{Context, Result, ensure};

const ERROR: u8 = 7;
const LCREATE: u8 = 14;
const SETATTR: u8 = 26;
const VERSION: u8 = 100;
const ATTACH: u8 = 104;
const WALK: u8 = 110;

const NO_TAG: u16 = u16::MAX;
const NO_FID: u32 = u32::MAX;
/// The root of the filesystem.
const ROOT: u32 = 0;
/// The folder, then the file that is made there.
const FILE: u32 = 1;
/// Bytes of a message before what its type has.
const HEAD: usize = 7;
const MESSAGE_MAX: u32 = 8 << 10;
/// `O_RDWR | O_CREAT`
const OPEN_FLAGS: u32 = 0o102;
/// Of all attributes, the size is set.
const VALID_SIZE: u32 = 8;

/// Makes a file of `size` bytes in the folder `folder` of the root.
pub(super) fn create_file(
    stream: &mut (impl Read + Write),
    folder: &str,
    name: &str,
    size: u64,
) -> Result<()> {
    let version = Message::new(VERSION, NO_TAG).u32(MESSAGE_MAX);
    version.text("9P2000.L")?.exchange(stream)?;
    let attach = Message::new(ATTACH, 0).u32(ROOT).u32(NO_FID);
    attach.text("root")?.text("")?.u32(0).exchange(stream)?;
    let walk = Message::new(WALK, 0).u32(ROOT).u32(FILE).u16(1);
    let walked = walk.text(folder)?.exchange(stream)?;
    // A walk that ends before is no error.
    ensure!(walked.starts_with(&[1, 0]), "there is no folder {folder}");
    let create = Message::new(LCREATE, 0).u32(FILE).text(name)?;
    create.u32(OPEN_FLAGS).u32(0o644).u32(0).exchange(stream)?;
    let mut set = Message::new(SETATTR, 0).u32(FILE).u32(VALID_SIZE);
    // Mode, owner and group; the size; both times.
    set = set.u32(0).u32(0).u32(0).u64(size);
    set.u64(0).u64(0).u64(0).u64(0).exchange(stream)?;
    Ok(())
}

/// A request.
#[derive(Debug)]
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u8, tag: u16) -> Self {
        let mut bytes = vec![0, 0, 0, 0, kind];
        bytes.extend(tag.to_le_bytes());
        Self(bytes)
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(self, text: &str) -> Result<Self> {
        let mut message = self.u16(u16::try_from(text.len())?);
        message.0.extend(text.as_bytes());
        Ok(message)
    }

    /// Sends it; what its reply has behind its head.
    fn exchange(mut self, stream: &mut (impl Read + Write)) -> Result<Vec<u8>> {
        let len = u32::try_from(self.0.len())?;
        self.0[..4].copy_from_slice(&len.to_le_bytes());
        let kind = self.0[4];
        stream.write_all(&self.0)?;
        let mut head = [0; HEAD];
        stream
            .read_exact(&mut head)
            .with_context(|| format!("no reply to message {kind} of 9P"))?;
        let [a, b, c, d, reply, ..] = head;
        let len = u32::from_le_bytes([a, b, c, d]);
        ensure!(
            len <= MESSAGE_MAX && len as usize >= HEAD,
            "a reply of 9P with {len} bytes"
        );
        let mut body = vec![0; len as usize - HEAD];
        stream.read_exact(&mut body)?;
        ensure!(
            reply == kind + 1,
            "message {kind} of 9P was answered with {reply}{}",
            match (reply, body.first()) {
                (ERROR, Some(errno)) => format!(", errno {errno}"),
                _ => String::new(),
            }
        );
        Ok(body)
    }
}

//! The kernel of a guest, unpacked: QEMU starts an ELF file with a PVH entry by itself, so that the guest neither runs a BIOS nor
//! unpacks 53 MB under emulation, a quarter of the processor time of a boot.
//!
//! A kernel that is packed in another way than by LZ4, as Debian's cloud kernel is, is started as it is.
//!
//! ```text
//! setup sectors at 0x1f1, "HdrS" at 0x202; payload offset at 0x248, from the end of the setup code, and length at 0x24c
//! payload: LZ4 in its legacy frame, and 4 bytes of its length when unpacked
//! ```
//!
//! Source: the kernel's `Documentation/arch/x86/boot.rst`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// The first bytes of LZ4's legacy frame.
const LZ4_LEGACY: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

/// What QEMU starts of `packed`: the unpacked kernel, which is kept as `unpacked`, or `packed` itself.
pub(super) fn unpack(packed: &Path, unpacked: PathBuf) -> Result<PathBuf> {
    if unpacked.exists() {
        return Ok(unpacked);
    }
    let image =
        std::fs::read(packed).with_context(|| format!("cannot read {}", packed.display()))?;
    let Some(frame) = lz4_frame(&image) else {
        return Ok(packed.to_owned());
    };
    let framed = unpacked.with_extension("lz4");
    let part = unpacked.with_extension("part");
    std::fs::write(&framed, frame)?;
    let mut lz4 = Command::new("lz4");
    shell::output(lz4.args(["-dqf"]).arg(&framed).arg(&part))?;
    std::fs::remove_file(&framed)?;
    std::fs::rename(&part, &unpacked)?;
    Ok(unpacked)
}

/// The LZ4 frame of a packed kernel.
pub(super) fn lz4_frame(image: &[u8]) -> Option<&[u8]> {
    let field = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?) as usize);
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let begin = (usize::from(image[0x1f1]) + 1) * 512 + field(0x248)?;
    let end = begin.checked_add(field(0x24c)?)?.checked_sub(4)?;
    let frame = image.get(begin..end)?;
    frame.starts_with(&LZ4_LEGACY).then_some(frame)
}

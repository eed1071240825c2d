//! Arrays of device-mapper's persistent data, with values of eight bytes.

use super::super::ThinError;
use super::super::format::{BLOCK_LEN, BlockKind, NodeFault, POINTER_LEN};
use super::super::walk::{Metadata, Tree, Walk};
use crate::fields::Fields;

const HEADER_LEN: usize = 24;
const VALUE_LEN: usize = 8;
/// Values in a full block.
const VALUES_MAX: usize = (BLOCK_LEN - HEADER_LEN) / VALUE_LEN;

/// Passes each of the first `len` values of an array and its index to `visit`, in order.
pub(super) async fn read(
    metadata: &Metadata,
    root: u64,
    len: u64,
    mut visit: impl FnMut(u64, u64),
) -> Result<(), ThinError> {
    if len == 0 {
        return Ok(());
    }
    let tree = Tree {
        root,
        value_size: POINTER_LEN,
    };
    let mut walk = Walk::new(metadata, tree, 0..=u64::MAX);
    let mut next = 0;
    while next < len {
        let Some(leaf) = walk.next_leaf().await? else {
            return Err(ThinError::node(root, NodeFault::Short { len, found: next }));
        };
        for entry in 0..leaf.count() {
            let block = leaf.number(entry);
            if next == len {
                break;
            }
            if leaf.key(entry) != next / VALUES_MAX as u64 {
                return Err(ThinError::node(root, NodeFault::Short { len, found: next }));
            }
            let wanted = usize::try_from(len - next)
                .unwrap_or(usize::MAX)
                .min(VALUES_MAX);
            let bytes = metadata.block(block).await?;
            let values = values(&bytes, block, wanted);
            for value in values.map_err(|fault| ThinError::node(block, fault))? {
                visit(next, u64::from_le_bytes(*value));
                next += 1;
            }
        }
    }
    Ok(())
}

/// The first `wanted` values of a block, which must be as many.
fn values(bytes: &[u8], block: u64, wanted: usize) -> Result<&[[u8; VALUE_LEN]], NodeFault> {
    let fields = Fields::of(bytes);
    let (stored, computed) = (fields.u32(0), BlockKind::Array.checksum(bytes));
    if stored != computed {
        return Err(NodeFault::Checksum { stored, computed });
    }
    if fields.u64(16) != block {
        return Err(NodeFault::BlockNumber(fields.u64(16)));
    }
    let (max, count, found) = (fields.u32(4), fields.u32(8), fields.u32(12));
    if found != POINTER_LEN {
        let expected = POINTER_LEN;
        return Err(NodeFault::ValueSize { found, expected });
    }
    let fits = |number: u32| usize::try_from(number).is_ok_and(|number| number <= VALUES_MAX);
    if !fits(max) || count > max || usize::try_from(count).is_ok_and(|count| count < wanted) {
        return Err(NodeFault::Entries { count, max });
    }
    let (values, _) = bytes[HEADER_LEN..].as_chunks();
    Ok(&values[..wanted])
}

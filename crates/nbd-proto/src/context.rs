//! Metadata contexts: their names, and which of them a query means.
//!
//! A name is `NAMESPACE:LEAF`. A query is a name, or in `LIST_META_CONTEXT` also `NAMESPACE:`, which
//! means all of that namespace (proto.md, "Metadata querying").

use crate::consts::limits;
use crate::wire::string;

/// The context that reports holes and zeroes; its status is [`crate::AllocationFlags`].
pub const BASE_ALLOCATION: &str = "base:allocation";

/// The context in which QEMU's server reports the layer of a chain of images that has a range allocated: its
/// status is 0 where none has, 1 for the image itself, 2 for its backing file, and so on (QEMU, `docs/interop/nbd.rst`).
pub const QEMU_ALLOCATION_DEPTH: &str = "qemu:allocation-depth";

/// The beginning of the names of the contexts in which QEMU's server reports dirty bitmaps; the bitmap's own name
/// follows. A status has [`QEMU_DIRTY`] where the range was written.
pub const QEMU_DIRTY_BITMAP: &str = "qemu:dirty-bitmap:";

/// The bit of a dirty range in a status of a [`QEMU_DIRTY_BITMAP`].
pub const QEMU_DIRTY: u64 = 1;

/// A metadata context that both sides agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetaContext {
    /// What stands for it in transmission, unique in its session.
    pub id: u32,
    /// Its name.
    pub name: String,
}

/// Whether `text` can be a query: a namespace, a colon, and perhaps more.
pub(crate) fn is_query(text: &str) -> bool {
    let namespace = text.split_once(':').map(|(namespace, _)| namespace);
    let printable = |c: char| !c.is_whitespace() && !c.is_control();
    namespace.is_some_and(|name| !name.is_empty() && name.chars().all(printable))
}

/// A name as the other side says it: `None` if it cannot be one.
pub(crate) fn name(bytes: &[u8]) -> Option<&str> {
    let text = string(bytes).filter(|_| bytes.len() <= limits::STRING_MAX)?;
    is_query(text).then_some(text)
}

/// Those of `offered` that one of `queries` names, or, where `wildcards` count, means. Each once, in
/// the order offered.
pub(crate) fn matching<'a>(
    offered: &[&'a str],
    queries: &[String],
    wildcards: bool,
) -> Vec<&'a str> {
    let means = |query: &String, name: &str| {
        let wild = wildcards && query.ends_with(':') && query.matches(':').count() == 1;
        query == name || (wild && name.starts_with(query.as_str()))
    };
    let wanted = |name: &&&str| queries.iter().any(|query| means(query, name));
    offered.iter().filter(wanted).copied().collect()
}

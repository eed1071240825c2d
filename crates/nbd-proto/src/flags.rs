//! The flag words of the protocol. Unknown bits are kept where the other side must be judged by them.

bitflags::bitflags! {
    /// What a server says of itself in its greeting.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct HandshakeFlags: u16 {
        /// Options are answered one by one, errors included.
        const FIXED_NEWSTYLE = 1;
        /// The zeroes behind the answer to `EXPORT_NAME` may be left out.
        const NO_ZEROES = 1 << 1;
    }

    /// A client's answer to [`HandshakeFlags`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ClientFlags: u32 {
        /// The client speaks fixed newstyle.
        const FIXED_NEWSTYLE = 1;
        /// The client does without the zeroes.
        const NO_ZEROES = 1 << 1;
    }

    /// What an export can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TransmissionFlags: u16 {
        /// Always set.
        const HAS_FLAGS = 1;
        /// Writes are refused.
        const READ_ONLY = 1 << 1;
        /// `FLUSH` is understood.
        const SEND_FLUSH = 1 << 2;
        /// `FUA` is understood.
        const SEND_FUA = 1 << 3;
        /// Seeks cost time.
        const ROTATIONAL = 1 << 4;
        /// `TRIM` is understood.
        const SEND_TRIM = 1 << 5;
        /// `WRITE_ZEROES` and `NO_HOLE` are understood.
        const SEND_WRITE_ZEROES = 1 << 6;
        /// `DF` is understood; only under structured replies.
        const SEND_DF = 1 << 7;
        /// A flush on one connection covers the writes of all.
        const CAN_MULTI_CONN = 1 << 8;
        /// The experimental resize extension.
        const SEND_RESIZE = 1 << 9;
        /// `CACHE` is understood.
        const SEND_CACHE = 1 << 10;
        /// `FAST_ZERO` is understood.
        const SEND_FAST_ZERO = 1 << 11;
        /// `BLOCK_STATUS` takes a payload; only under extended headers.
        const BLOCK_STATUS_PAYLOAD = 1 << 12;
    }

    /// Flags of one request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CommandFlags: u16 {
        /// Durable before the reply.
        const FUA = 1;
        /// `WRITE_ZEROES`: keep the space allocated.
        const NO_HOLE = 1 << 1;
        /// `READ`: at most one content chunk.
        const DF = 1 << 2;
        /// `BLOCK_STATUS`: one extent per context.
        const REQ_ONE = 1 << 3;
        /// `WRITE_ZEROES`: fail rather than write zeroes one by one.
        const FAST_ZERO = 1 << 4;
        /// Extended headers: the length is that of a payload.
        const PAYLOAD_LEN = 1 << 5;
    }

    /// Flags of one structured reply chunk.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ChunkFlags: u16 {
        /// The last chunk of its reply.
        const DONE = 1;
    }

    /// Status of an extent in the context `base:allocation`. 0 is always true: allocated, or not known.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AllocationFlags: u32 {
        /// Not allocated: a write may find no space.
        const HOLE = 1;
        /// Reads as zeroes.
        const ZERO = 1 << 1;
    }
}

//! Numbers of the protocol: magics, options, option replies and our limits.
//!
//! Names follow proto.md without its `NBD_` prefixes.

/// First eight bytes of a server: `NBDMAGIC`.
pub(crate) const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle server and first of every option: `IHAVEOPT`.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Second eight bytes of an oldstyle server (`nbdkit --oldstyle`, nbd-server before 3.10 without export names).
pub(crate) const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// First eight bytes of a reply to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First four bytes of a compact request.
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First four bytes of a simple reply.
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First four bytes of a structured reply chunk.
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// First four bytes of an extended request.
pub(crate) const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// First four bytes of an extended reply chunk.
pub(crate) const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// The two magics that every server begins with.
pub(crate) const MAGICS_LEN: usize = 16;
/// The flags of a newstyle server behind its magics.
pub(crate) const HANDSHAKE_FLAGS_LEN: usize = 2;
/// What an oldstyle server sends behind its magics: size, handshake flags, transmission flags, zeroes.
pub(crate) const OLDSTYLE_LEN: usize = 8 + 2 + 2 + 124;
/// Magic, option and length.
pub(crate) const OPTION_HEADER_LEN: usize = 16;
/// Magic, option, reply type and length.
pub(crate) const OPTION_REPLY_HEADER_LEN: usize = 20;
/// Zeroes behind the answer to `EXPORT_NAME` unless both sides agreed to leave them out.
pub(crate) const EXPORT_NAME_ZEROES: usize = 124;
/// Size and flags in the answer to `EXPORT_NAME`.
pub(crate) const EXPORT_NAME_ANSWER_LEN: usize = 10;

/// TCP port of NBD, assigned by IANA.
pub const DEFAULT_PORT: u16 = 10809;

/// Bounds that both sides keep, independent of the other side.
pub mod limits {
    /// Longest string: export name, description, error text (proto.md, "Values").
    pub const STRING_MAX: usize = 4096;
    /// Longest data of an option or of a reply to one. Longer: the connection ends.
    pub const OPTION_MAX: u32 = 64 * 1024;
    /// Options a client may send in one handshake.
    pub const OPTIONS_MAX: u32 = 512;
    /// Exports a client takes from one `LIST`.
    pub const LISTED_MAX: usize = 64 * 1024;
    /// Replies other than listed exports that a client takes for one option.
    pub const REPLIES_MAX: u32 = 512;
    /// Longest payload of one request or reply that we send or take.
    pub const PAYLOAD_MAX: u32 = 64 * 1024 * 1024;
    /// Longest request that every server must take unless it says otherwise.
    pub const PAYLOAD_DEFAULT: u32 = 32 * 1024 * 1024;
    /// Largest minimum block size a server may ask for.
    pub const BLOCK_SIZE_MIN_MAX: u32 = 64 * 1024;
    /// Smallest preferred block size a server may name.
    pub const BLOCK_SIZE_PREFERRED_MIN: u32 = 512;
    /// Preferred block size where a server names none.
    pub const BLOCK_SIZE_PREFERRED_DEFAULT: u32 = 4096;
    /// Separate pieces of one structured read that a client keeps track of.
    pub const PIECES_MAX: usize = 4096;
    /// Queries for metadata contexts in one option.
    pub const CONTEXT_QUERIES_MAX: u32 = 1024;
    /// Metadata contexts of one export, and so of one session.
    pub const CONTEXTS_MAX: usize = 64;
    /// Extents in one answer for one context.
    pub const EXTENTS_MAX: u32 = 1 << 20;
    /// Longest payload of a `BLOCK_STATUS` request: a length and an id for each context.
    pub const STATUS_FILTER_MAX: u32 = 8 + 4 * 64;
}

/// An option of a client in the handshake (`NBD_OPT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionCode {
    /// 1: choose an export and go; cannot be answered with an error.
    ExportName,
    /// 2: end the session.
    Abort,
    /// 3: list the exports.
    List,
    /// 5: go on under TLS.
    StartTls,
    /// 6: describe an export.
    Info,
    /// 7: describe an export and go.
    Go,
    /// 8: use structured replies.
    StructuredReply,
    /// 9: list metadata contexts.
    ListMetaContext,
    /// 10: choose metadata contexts.
    SetMetaContext,
    /// 11: use 64-bit requests and replies.
    ExtendedHeaders,
    /// Any other number.
    Unknown(u32),
}

impl From<u32> for OptionCode {
    fn from(number: u32) -> Self {
        match number {
            1 => Self::ExportName,
            2 => Self::Abort,
            3 => Self::List,
            5 => Self::StartTls,
            6 => Self::Info,
            7 => Self::Go,
            8 => Self::StructuredReply,
            9 => Self::ListMetaContext,
            10 => Self::SetMetaContext,
            11 => Self::ExtendedHeaders,
            other => Self::Unknown(other),
        }
    }
}

impl From<OptionCode> for u32 {
    fn from(option: OptionCode) -> Self {
        match option {
            OptionCode::ExportName => 1,
            OptionCode::Abort => 2,
            OptionCode::List => 3,
            OptionCode::StartTls => 5,
            OptionCode::Info => 6,
            OptionCode::Go => 7,
            OptionCode::StructuredReply => 8,
            OptionCode::ListMetaContext => 9,
            OptionCode::SetMetaContext => 10,
            OptionCode::ExtendedHeaders => 11,
            OptionCode::Unknown(number) => number,
        }
    }
}

/// Type of a server's reply to an option (`NBD_REP_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionReply {
    /// 1: done.
    Ack,
    /// 2: one export of a list.
    Server,
    /// 3: one piece of information on an export.
    Info,
    /// 4: one metadata context.
    MetaContext,
    /// The option is not known to the server.
    ErrUnsupported,
    /// The option is forbidden by the server's configuration.
    ErrPolicy,
    /// The option was malformed or came at the wrong time.
    ErrInvalid,
    /// The server's platform cannot do this.
    ErrPlatform,
    /// TLS must come first.
    ErrTlsRequired,
    /// There is no such export.
    ErrUnknown,
    /// The server is going away.
    ErrShutdown,
    /// The client must ask for the block size.
    ErrBlockSizeRequired,
    /// The request or its answer is too large.
    ErrTooBig,
    /// Extended headers must come first.
    ErrExtendedHeadersRequired,
    /// Any other number.
    Unknown(u32),
}

const ERROR_BIT: u32 = 1 << 31;

impl OptionReply {
    /// Whether the reply says that the option failed; it is then the last one.
    #[must_use]
    pub fn is_error(self) -> bool {
        u32::from(self) & ERROR_BIT != 0
    }
}

impl From<u32> for OptionReply {
    fn from(number: u32) -> Self {
        match (number & ERROR_BIT != 0, number & !ERROR_BIT) {
            (false, 1) => Self::Ack,
            (false, 2) => Self::Server,
            (false, 3) => Self::Info,
            (false, 4) => Self::MetaContext,
            (true, 1) => Self::ErrUnsupported,
            (true, 2) => Self::ErrPolicy,
            (true, 3) => Self::ErrInvalid,
            (true, 4) => Self::ErrPlatform,
            (true, 5) => Self::ErrTlsRequired,
            (true, 6) => Self::ErrUnknown,
            (true, 7) => Self::ErrShutdown,
            (true, 8) => Self::ErrBlockSizeRequired,
            (true, 9) => Self::ErrTooBig,
            (true, 10) => Self::ErrExtendedHeadersRequired,
            _ => Self::Unknown(number),
        }
    }
}

impl From<OptionReply> for u32 {
    fn from(reply: OptionReply) -> Self {
        match reply {
            OptionReply::Ack => 1,
            OptionReply::Server => 2,
            OptionReply::Info => 3,
            OptionReply::MetaContext => 4,
            OptionReply::ErrUnsupported => ERROR_BIT | 1,
            OptionReply::ErrPolicy => ERROR_BIT | 2,
            OptionReply::ErrInvalid => ERROR_BIT | 3,
            OptionReply::ErrPlatform => ERROR_BIT | 4,
            OptionReply::ErrTlsRequired => ERROR_BIT | 5,
            OptionReply::ErrUnknown => ERROR_BIT | 6,
            OptionReply::ErrShutdown => ERROR_BIT | 7,
            OptionReply::ErrBlockSizeRequired => ERROR_BIT | 8,
            OptionReply::ErrTooBig => ERROR_BIT | 9,
            OptionReply::ErrExtendedHeadersRequired => ERROR_BIT | 10,
            OptionReply::Unknown(number) => number,
        }
    }
}

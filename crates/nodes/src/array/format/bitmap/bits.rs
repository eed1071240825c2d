//! [`Bits`]: the bits of a bitmap in memory, and how they lie on disks. Pure.

use block::Range;

use super::{CHUNK_MIN, HEADER_LEN, HEADER_LEN_USIZE, Problem};

/// Most bits of a bitmap: 16 MiB of them.
pub const CHUNKS_MAX: u64 = 1 << 27;
/// What is written of a bitmap at once, bytes; counted from its header, so that the first page has fewer bits.
pub const PAGE: u64 = 4096;
const PAGE_USIZE: usize = 4096;
/// Bits of a word in memory.
const WORD: u64 = 64;

/// How many bits there are, and what each is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    size: u64,
    chunk: u64,
}

impl Shape {
    /// Bits for `size` bytes, one for each `chunk`.
    ///
    /// # Errors
    /// [`Problem::Chunk`], [`Problem::Chunks`]: that cannot be, or would be too many.
    pub fn new(size: u64, chunk: u32) -> Result<Self, Problem> {
        if !chunk.is_power_of_two() || chunk < CHUNK_MIN {
            return Err(Problem::Chunk(chunk));
        }
        let shape = Self {
            size,
            chunk: chunk.into(),
        };
        match shape.chunks() {
            ..=CHUNKS_MAX => Ok(shape),
            chunks => Err(Problem::Chunks(chunks)),
        }
    }

    /// Bytes for each bit.
    #[must_use]
    pub const fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Bytes that are covered.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Bits.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        self.size.div_ceil(self.chunk)
    }

    /// The bits of a range of what is covered.
    #[must_use]
    pub fn bits_of(&self, range: Range) -> std::ops::Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        range.offset / self.chunk..range.end().div_ceil(self.chunk)
    }

    /// What a bit is for.
    ///
    /// # Panics
    /// If there is no such bit.
    #[must_use]
    pub fn range_of(&self, bit: u64) -> Range {
        assert!(bit < self.chunks(), "bit {bit} of {}", self.chunks());
        let start = bit * self.chunk;
        Range::new(start, self.chunk.min(self.size - start))
    }

    /// Bytes of header and bits.
    #[must_use]
    pub const fn len_on_disk(&self) -> u64 {
        HEADER_LEN + self.chunks().div_ceil(8)
    }

    /// Pages of header and bits.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.len_on_disk().div_ceil(PAGE)
    }

    /// The page that a bit is in.
    #[must_use]
    pub const fn page_of(&self, bit: u64) -> u64 {
        (HEADER_LEN + bit / 8) / PAGE
    }

    /// The bits of a page.
    #[must_use]
    pub fn bits_in(&self, page: u64) -> std::ops::Range<u64> {
        let first = (page * PAGE).saturating_sub(HEADER_LEN) * 8;
        let end = ((page + 1) * PAGE - HEADER_LEN) * 8;
        first.min(self.chunks())..end.min(self.chunks())
    }

    /// Where a page is on a disk where the bitmap is at `place` (see [`place`](super::place)): the last one may
    /// be shorter.
    #[must_use]
    pub fn page_at(&self, page: u64, place: Range) -> Range {
        let start = page * PAGE;
        Range::new(place.offset + start, PAGE.min(place.len - start))
    }
}

/// The bits of a bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bits {
    shape: Shape,
    words: Vec<u64>,
    set: u64,
}

impl Bits {
    /// None is set.
    #[must_use]
    pub fn clear(shape: Shape) -> Self {
        let words = usize::try_from(shape.chunks().div_ceil(WORD)).expect("bounded");
        Self {
            shape,
            words: vec![0; words],
            set: 0,
        }
    }

    /// All are set: nothing is known.
    #[must_use]
    pub fn full(shape: Shape) -> Self {
        let mut bits = Self::clear(shape);
        bits.words.fill(u64::MAX);
        bits.trim();
        bits
    }

    /// As they are on a disk; `bytes` begin with the header. What is not there, or lies behind what the header
    /// says that it `covers` (bytes), counts as set.
    #[must_use]
    pub fn decode(shape: Shape, bytes: &[u8], covers: u64) -> Self {
        let mut bits = Self::full(shape);
        let told = bytes.get(HEADER_LEN_USIZE..).unwrap_or_default();
        let known = (covers / shape.chunk).min(told.len() as u64 * 8);
        // A last chunk that is covered in part is covered.
        let known = match covers == shape.size {
            true => shape.chunks().min(told.len() as u64 * 8),
            false => known,
        };
        for (word, eight) in bits.words.iter_mut().zip(told.chunks(8)) {
            let mut whole = [0xff; 8];
            whole[..eight.len()].copy_from_slice(eight);
            *word = u64::from_le_bytes(whole);
        }
        for bit in known..shape.chunks().min(known.next_multiple_of(WORD)) {
            let (word, mask) = place(bit);
            bits.words[word] |= mask;
        }
        let behind = place(known.next_multiple_of(WORD)).0;
        if let Some(behind) = bits.words.get_mut(behind..) {
            behind.fill(u64::MAX);
        }
        bits.trim();
        bits
    }

    /// Bits behind the last one are none; counts the others.
    fn trim(&mut self) {
        let over = self.words.len() as u64 * WORD - self.shape.chunks();
        if let Some(last) = self.words.last_mut() {
            *last &= u64::MAX >> over;
        }
        self.set = self.words.iter().map(|w| u64::from(w.count_ones())).sum();
    }

    /// How they lie.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many are set.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.set
    }

    /// Whether one is set.
    ///
    /// # Panics
    /// If there is no such bit; so do the others.
    #[must_use]
    pub fn is_set(&self, bit: u64) -> bool {
        let (word, mask) = self.place(bit);
        self.words[word] & mask != 0
    }

    /// Sets one; whether it was not.
    pub fn set(&mut self, bit: u64) -> bool {
        let (word, mask) = self.place(bit);
        let is_new = self.words[word] & mask == 0;
        self.words[word] |= mask;
        self.set += u64::from(is_new);
        is_new
    }

    /// Clears one; whether it was set.
    pub fn unset(&mut self, bit: u64) -> bool {
        let (word, mask) = self.place(bit);
        let was_set = self.words[word] & mask != 0;
        self.words[word] &= !mask;
        self.set -= u64::from(was_set);
        was_set
    }

    /// The first one from `bit` on that is set.
    #[must_use]
    pub fn next_set(&self, bit: u64) -> Option<u64> {
        if bit >= self.shape.chunks() {
            return None;
        }
        let (first, mask) = place(bit);
        let begun = self.words[first] & !(mask - 1);
        let rest = self.words[first + 1..].iter().copied();
        let mut words = std::iter::once(begun).chain(rest).enumerate();
        let (ahead, word) = words.find(|(_, word)| *word != 0)?;
        Some((first + ahead) as u64 * WORD + u64::from(word.trailing_zeros()))
    }

    /// All that are set, in order.
    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        let next = |bit: &u64| self.next_set(bit + 1);
        std::iter::successors(self.next_set(0), next)
    }

    /// Sets what is set in the other one, too.
    ///
    /// # Panics
    /// If they are of different shapes.
    pub fn unite(&mut self, other: &Self) {
        assert_eq!(self.shape, other.shape, "bits of one array");
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
        self.trim();
    }

    /// Leaves those of which something lies at byte `from` or behind it, as
    /// [`counts_from`](super::Bitmap::counts_from) says; `None`: nothing does.
    pub fn keep_from(&mut self, from: Option<u64>) {
        let first = match from {
            // A chunk that ends just there still counts: so it is with Linux.
            Some(from) => from.div_ceil(self.shape.chunk).saturating_sub(1),
            None => u64::MAX,
        };
        let first = first.min(self.words.len() as u64 * WORD);
        let (word, mask) = place(first);
        self.words[..word].fill(0);
        if let Some(at) = self.words.get_mut(word) {
            *at &= !(mask - 1);
        }
        self.trim();
    }

    /// The bytes of a page, `len` of them (see [`Shape::page_at`]). `header` begins the first one.
    ///
    /// # Panics
    /// If `len` is more than a page.
    #[must_use]
    pub fn page(&self, page: u64, header: &[u8; HEADER_LEN_USIZE], len: usize) -> Vec<u8> {
        assert!(len <= PAGE_USIZE, "a page has {PAGE} bytes");
        let mut bytes = Vec::with_capacity(len);
        let skipped = match page {
            0 => {
                bytes.extend_from_slice(&header[..len.min(HEADER_LEN_USIZE)]);
                0
            }
            _ => page * PAGE - HEADER_LEN,
        };
        // Pages and the header are whole words.
        let first = usize::try_from(skipped / 8).expect("within memory");
        let words = self.words.get(first..).unwrap_or_default();
        for word in words.iter().take((len - bytes.len()).div_ceil(8)) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(len, 0);
        bytes
    }

    fn place(&self, bit: u64) -> (usize, u64) {
        let chunks = self.shape.chunks();
        assert!(bit < chunks, "bit {bit} of {chunks}");
        place(bit)
    }
}

/// Word and bit in it.
fn place(bit: u64) -> (usize, u64) {
    let word = usize::try_from(bit / WORD).expect("bounded");
    (word, 1 << (bit % WORD))
}

//! The computations, once for registers of any width and once byte by byte.
//!
//! Each [`Work`] says what becomes of a few registers' worth of bytes at one place. Sums are kept in
//! registers from the first term to the last: every byte is read once and every result written once.

use super::field::{Factor, double, inverse, power, product};

/// Terms of a sum by their exponents: the term at `i` counts 2^i times in Q. `None` is zero: lost,
/// or not there.
pub(super) type Terms<'a> = &'a [Option<&'a [u8]>];

/// A register full of bytes.
pub(super) trait Lanes: Copy {
    /// Bytes.
    const LEN: usize;
    /// A factor, ready to multiply with.
    type Times: Copy;

    /// All zero.
    ///
    /// # Safety
    /// The CPU has these registers.
    unsafe fn zero() -> Self;

    /// The bytes at `from`, however it is aligned.
    ///
    /// # Safety
    /// The CPU has these registers, and `LEN` bytes can be read.
    unsafe fn load(from: *const u8) -> Self;

    /// Writes the bytes to `to`, however it is aligned.
    ///
    /// # Safety
    /// The CPU has these registers, and `LEN` bytes can be written.
    unsafe fn store(self, to: *mut u8);

    /// The sum.
    ///
    /// # Safety
    /// The CPU has these registers.
    unsafe fn add(self, other: Self) -> Self;

    /// Twice each byte.
    ///
    /// # Safety
    /// The CPU has these registers.
    unsafe fn double(self) -> Self;

    /// Readies a factor.
    ///
    /// # Safety
    /// The CPU has these registers.
    unsafe fn times(factor: &Factor) -> Self::Times;

    /// The product of each byte.
    ///
    /// # Safety
    /// The CPU has these registers.
    unsafe fn multiply(self, times: Self::Times) -> Self;
}

/// A computation over slices of one length.
pub(super) trait Work {
    /// Length of every slice, bytes.
    fn len(&self) -> usize;

    /// `UNROLL` registers at byte `at`.
    ///
    /// # Safety
    /// The CPU has these registers, and `at + UNROLL * L::LEN` is at most [`len`](Self::len).
    unsafe fn step<L: Lanes, const UNROLL: usize>(&mut self, at: usize);

    /// One byte.
    fn byte(&mut self, at: usize);
}

/// Does `work` register by register as far as whole ones go; returns how far that is.
///
/// # Safety
/// The CPU has these registers.
#[inline(always)]
pub(super) unsafe fn drive<L: Lanes, W: Work>(work: &mut W) -> usize {
    const UNROLL: usize = 4;
    let len = work.len();
    let mut at = 0;
    while len - at >= UNROLL * L::LEN {
        // SAFETY: so many bytes are left, and the caller vouches for the registers.
        unsafe { work.step::<L, UNROLL>(at) };
        at += UNROLL * L::LEN;
    }
    while len - at >= L::LEN {
        // SAFETY: as above.
        unsafe { work.step::<L, 1>(at) };
        at += L::LEN;
    }
    at
}

/// Asserts that all terms are `len` bytes long.
fn assert_even(terms: Terms<'_>, len: usize) {
    let even = terms.iter().flatten().all(|term| term.len() == len);
    assert!(even, "what is added up is of one length");
}

/// P and Q of the terms at byte `at`. Q by Horner's rule, from the highest exponent down.
///
/// # Safety
/// As [`Work::step`], of terms of that length.
#[inline(always)]
unsafe fn sums<L: Lanes, const UNROLL: usize>(
    terms: Terms<'_>,
    at: usize,
) -> ([L; UNROLL], [L; UNROLL]) {
    // SAFETY: the caller vouches for the registers, and that each term goes on for so long.
    unsafe {
        let (mut p, mut q) = ([L::zero(); UNROLL], [L::zero(); UNROLL]);
        for term in terms.iter().rev() {
            for q in &mut q {
                *q = q.double();
            }
            let Some(term) = term else { continue };
            let from = term.as_ptr().add(at);
            for step in 0..UNROLL {
                let bytes = L::load(from.add(step * L::LEN));
                p[step] = p[step].add(bytes);
                q[step] = q[step].add(bytes);
            }
        }
        (p, q)
    }
}

fn sums_of_byte(terms: Terms<'_>, at: usize) -> (u8, u8) {
    let terms = terms.iter().rev();
    terms.fold((0, 0), |(p, q), term| {
        let byte = term.map_or(0, |term| term[at]);
        (p ^ byte, double(q) ^ byte)
    })
}

/// The plain sum.
pub(super) struct Xor<'a> {
    terms: &'a [&'a [u8]],
    into: &'a mut [u8],
}

impl<'a> Xor<'a> {
    pub(super) fn new(terms: &'a [&'a [u8]], into: &'a mut [u8]) -> Self {
        let even = terms.iter().all(|term| term.len() == into.len());
        assert!(even, "what is added up is of one length");
        Self { terms, into }
    }
}

impl Work for Xor<'_> {
    fn len(&self) -> usize {
        self.into.len()
    }

    #[inline(always)]
    unsafe fn step<L: Lanes, const UNROLL: usize>(&mut self, at: usize) {
        // SAFETY: `new` saw that all slices are of one length, and the caller that this place is in it.
        unsafe {
            let mut sum = [L::zero(); UNROLL];
            for term in self.terms {
                let from = term.as_ptr().add(at);
                for (step, sum) in sum.iter_mut().enumerate() {
                    *sum = sum.add(L::load(from.add(step * L::LEN)));
                }
            }
            put(&sum, self.into, at);
        }
    }

    fn byte(&mut self, at: usize) {
        self.into[at] = self.terms.iter().fold(0, |sum, term| sum ^ term[at]);
    }
}

/// Writes registers to byte `at` of `into`.
///
/// # Safety
/// The CPU has these registers, and so many bytes follow there.
#[inline(always)]
unsafe fn put<L: Lanes>(registers: &[L], into: &mut [u8], at: usize) {
    for (step, register) in registers.iter().enumerate() {
        // SAFETY: the caller vouches for both.
        unsafe { register.store(into.as_mut_ptr().add(at + step * L::LEN)) };
    }
}

/// P and Q of all.
pub(super) struct Syndrome<'a> {
    terms: Terms<'a>,
    p: &'a mut [u8],
    q: &'a mut [u8],
}

impl<'a> Syndrome<'a> {
    pub(super) fn new(terms: Terms<'a>, p: &'a mut [u8], q: &'a mut [u8]) -> Self {
        assert_even(terms, p.len());
        assert_eq!(p.len(), q.len(), "both parities are of one length");
        Self { terms, p, q }
    }
}

impl Work for Syndrome<'_> {
    fn len(&self) -> usize {
        self.p.len()
    }

    #[inline(always)]
    unsafe fn step<L: Lanes, const UNROLL: usize>(&mut self, at: usize) {
        // SAFETY: `new` saw that all slices are of one length, and the caller that this place is in it.
        unsafe {
            let (p, q) = sums::<L, UNROLL>(self.terms, at);
            put(&p, self.p, at);
            put(&q, self.q, at);
        }
    }

    fn byte(&mut self, at: usize) {
        (self.p[at], self.q[at]) = sums_of_byte(self.terms, at);
    }
}

/// Adds a multiple of one slice to another.
pub(super) struct MultiplyAdd<'a> {
    value: u8,
    factor: Factor,
    from: &'a [u8],
    into: &'a mut [u8],
}

impl<'a> MultiplyAdd<'a> {
    pub(super) fn new(value: u8, from: &'a [u8], into: &'a mut [u8]) -> Self {
        assert_eq!(from.len(), into.len(), "what is added up is of one length");
        Self {
            value,
            factor: Factor::new(value),
            from,
            into,
        }
    }
}

impl Work for MultiplyAdd<'_> {
    fn len(&self) -> usize {
        self.into.len()
    }

    #[inline(always)]
    unsafe fn step<L: Lanes, const UNROLL: usize>(&mut self, at: usize) {
        // SAFETY: `new` saw that both slices are of one length, and the caller that this place is in it.
        unsafe {
            let times = L::times(&self.factor);
            let mut sum = [L::zero(); UNROLL];
            for (step, sum) in sum.iter_mut().enumerate() {
                let at = at + step * L::LEN;
                let product = L::load(self.from.as_ptr().add(at)).multiply(times);
                *sum = L::load(self.into.as_ptr().add(at)).add(product);
            }
            put(&sum, self.into, at);
        }
    }

    fn byte(&mut self, at: usize) {
        self.into[at] ^= product(self.value, self.from[at]);
    }
}

/// One lost term from Q.
pub(super) struct FromQ<'a> {
    terms: Terms<'a>,
    q: &'a [u8],
    value: u8,
    factor: Factor,
    into: &'a mut [u8],
}

impl<'a> FromQ<'a> {
    pub(super) fn new(terms: Terms<'a>, q: &'a [u8], lost: usize, into: &'a mut [u8]) -> Self {
        assert_even(terms, into.len());
        assert_eq!(q.len(), into.len(), "what is added up is of one length");
        assert!(terms[lost].is_none(), "what is lost is not there");
        let value = inverse(power(lost));
        Self {
            terms,
            q,
            value,
            factor: Factor::new(value),
            into,
        }
    }
}

impl Work for FromQ<'_> {
    fn len(&self) -> usize {
        self.into.len()
    }

    #[inline(always)]
    unsafe fn step<L: Lanes, const UNROLL: usize>(&mut self, at: usize) {
        // SAFETY: `new` saw that all slices are of one length, and the caller that this place is in it.
        unsafe {
            let times = L::times(&self.factor);
            let (_, mut lost) = sums::<L, UNROLL>(self.terms, at);
            for (step, lost) in lost.iter_mut().enumerate() {
                let q = L::load(self.q.as_ptr().add(at + step * L::LEN));
                *lost = lost.add(q).multiply(times);
            }
            put(&lost, self.into, at);
        }
    }

    fn byte(&mut self, at: usize) {
        let (_, rest) = sums_of_byte(self.terms, at);
        self.into[at] = product(self.value, self.q[at] ^ rest);
    }
}

/// Two lost terms from P and Q.
///
/// With `a = g^(y-x) / (g^(y-x) + 1)` and `b = g^-x / (g^(y-x) + 1)`, and what the terms that are left
/// lack of P and Q: `x` is `a P' + b Q'`, and `y` the rest of `P'` (H. P. Anvin, "The mathematics of
/// RAID-6").
pub(super) struct FromBoth<'a> {
    terms: Terms<'a>,
    p: &'a [u8],
    q: &'a [u8],
    values: [u8; 2],
    factors: [Factor; 2],
    first: &'a mut [u8],
    second: &'a mut [u8],
}

impl<'a> FromBoth<'a> {
    pub(super) fn new(
        terms: Terms<'a>,
        parity: [&'a [u8]; 2],
        lost: [usize; 2],
        into: [&'a mut [u8]; 2],
    ) -> Self {
        let ([p, q], [x, y], [first, second]) = (parity, lost, into);
        assert_even(terms, first.len());
        let all = [p.len(), q.len(), second.len()];
        assert_eq!(all, [first.len(); 3], "what is added up is of one length");
        let gone = terms[x].is_none() && terms[y].is_none();
        assert!(gone && x < y, "what is lost is not there");
        let apart = power(y - x);
        let share = inverse(apart ^ 1);
        let values = [product(apart, share), product(inverse(power(x)), share)];
        Self {
            terms,
            p,
            q,
            values,
            factors: values.map(Factor::new),
            first,
            second,
        }
    }
}

impl Work for FromBoth<'_> {
    fn len(&self) -> usize {
        self.first.len()
    }

    #[inline(always)]
    unsafe fn step<L: Lanes, const UNROLL: usize>(&mut self, at: usize) {
        // SAFETY: `new` saw that all slices are of one length, and the caller that this place is in it.
        unsafe {
            let (a, b) = (L::times(&self.factors[0]), L::times(&self.factors[1]));
            let (mut p, mut q) = sums::<L, UNROLL>(self.terms, at);
            for step in 0..UNROLL {
                let at = at + step * L::LEN;
                p[step] = p[step].add(L::load(self.p.as_ptr().add(at)));
                q[step] = q[step].add(L::load(self.q.as_ptr().add(at)));
                q[step] = p[step].multiply(a).add(q[step].multiply(b));
                p[step] = p[step].add(q[step]);
            }
            put(&q, self.first, at);
            put(&p, self.second, at);
        }
    }

    fn byte(&mut self, at: usize) {
        let (p, q) = sums_of_byte(self.terms, at);
        let (p, q) = (p ^ self.p[at], q ^ self.q[at]);
        self.first[at] = product(self.values[0], p) ^ product(self.values[1], q);
        self.second[at] = self.first[at] ^ p;
    }
}

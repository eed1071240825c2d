//! Parity of RAID 4, 5 and 6: sums of slices in the field of 256 elements, and what was lost from them.
//!
//! P is the sum of all terms, Q the sum in which the term at `i` counts 2^i times. A [`Kernel`] is one
//! kernel: byte by byte, or with the wide registers that this CPU has; all of them give the same
//! bytes. [`Kernel::best`] is chosen once.
//!
//! # Invariants
//!
//! * Slices of one call are of one length, which may be any; nothing needs to be aligned.
//! * Each byte is read once and each result is written once: no result is kept between.
//! * Wide registers are used only after CPUID reported them.
//!
//! # What it does not do
//!
//! It knows no disks and no layouts: callers pass the exponents of the terms.

mod field;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod tests;
mod work;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::LazyLock;

pub use self::field::{inverse, power, product};
use self::work::{FromBoth, FromQ, MultiplyAdd, Syndrome, Work, Xor};

/// Terms that Q can distinguish: powers of 2 repeat behind them.
pub const TERMS_MAX: usize = 255;

/// One kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Registers);

/// The registers that it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registers {
    /// Single bytes, with tables of logarithms.
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Gfni,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// What this CPU has, the fastest last.
static KERNELS: LazyLock<Vec<Kernel>> = LazyLock::new(detect);

#[cfg(target_arch = "x86_64")]
fn detect() -> Vec<Kernel> {
    let mut found = vec![Registers::Scalar];
    if is_x86_feature_detected!("ssse3") {
        found.push(Registers::Ssse3);
    }
    if is_x86_feature_detected!("avx2") {
        found.push(Registers::Avx2);
    }
    let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    if wide && is_x86_feature_detected!("gfni") {
        found.push(Registers::Gfni);
    }
    found.into_iter().map(Kernel).collect()
}

#[cfg(target_arch = "aarch64")]
fn detect() -> Vec<Kernel> {
    let mut found = vec![Registers::Scalar];
    if std::arch::is_aarch64_feature_detected!("neon") {
        found.push(Registers::Neon);
    }
    found.into_iter().map(Kernel).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Vec<Kernel> {
    vec![Kernel(Registers::Scalar)]
}

impl Kernel {
    /// Byte by byte: slow, and the proof of the others.
    pub const SCALAR: Self = Self(Registers::Scalar);

    /// The fastest that this CPU has.
    #[must_use]
    pub fn best() -> Self {
        KERNELS.last().copied().unwrap_or(Self::SCALAR)
    }

    /// All that this CPU has, the fastest last.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &KERNELS
    }

    /// What the CPU's makers call what it uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Registers::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Registers::Ssse3 => "SSSE3",
            #[cfg(target_arch = "x86_64")]
            Registers::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Registers::Gfni => "AVX-512 GFNI",
            #[cfg(target_arch = "aarch64")]
            Registers::Neon => "NEON",
        }
    }

    /// The sum of `terms`: P, or a lost term from P and all others.
    ///
    /// # Panics
    /// If they are not as long as `into`.
    pub fn xor(self, terms: &[&[u8]], into: &mut [u8]) {
        self.run(Xor::new(terms, into));
    }

    /// P and Q of `terms`, which lie at their exponents; `None` is zero.
    ///
    /// # Panics
    /// If the slices are not of one length, or if there are more than [`TERMS_MAX`] terms.
    pub fn syndrome(self, terms: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
        assert_count(terms);
        self.run(Syndrome::new(terms, p, q));
    }

    /// Adds `factor` times `from` to `into`.
    ///
    /// # Panics
    /// If they are not of one length.
    pub fn multiply_add(self, factor: u8, from: &[u8], into: &mut [u8]) {
        self.run(MultiplyAdd::new(factor, from, into));
    }

    /// The term with exponent `lost` from Q and the others.
    ///
    /// # Panics
    /// If the slices are not of one length, if the lost term is there, or if there are more than
    /// [`TERMS_MAX`].
    pub fn from_q(self, terms: &[Option<&[u8]>], q: &[u8], lost: usize, into: &mut [u8]) {
        assert_count(terms);
        self.run(FromQ::new(terms, q, lost, into));
    }

    /// The two terms with the exponents `lost`, the smaller one first, from P, Q and the others.
    ///
    /// # Panics
    /// If the slices are not of one length, if a lost term is there, if the exponents are not in
    /// order, or if there are more than [`TERMS_MAX`] terms.
    pub fn from_both(
        self,
        terms: &[Option<&[u8]>],
        parity: [&[u8]; 2],
        lost: [usize; 2],
        into: [&mut [u8]; 2],
    ) {
        assert_count(terms);
        self.run(FromBoth::new(terms, parity, lost, into));
    }

    fn run(self, mut work: impl Work) {
        let done = match self.0 {
            Registers::Scalar => 0,
            // SAFETY: a kernel with these registers is made only where the CPU was found to have them.
            #[cfg(target_arch = "x86_64")]
            Registers::Ssse3 => unsafe { x86::ssse3(&mut work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Registers::Avx2 => unsafe { x86::avx2(&mut work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Registers::Gfni => unsafe { x86::gfni(&mut work) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Registers::Neon => unsafe { neon::neon(&mut work) },
        };
        for at in done..work.len() {
            work.byte(at);
        }
    }
}

fn assert_count(terms: &[Option<&[u8]>]) {
    assert!(terms.len() <= TERMS_MAX, "Q can distinguish all terms");
}

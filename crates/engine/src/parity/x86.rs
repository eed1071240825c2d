//! Registers of x86-64: 16 bytes with SSSE3, 32 with AVX2, 64 with AVX-512 and GFNI.
//!
//! The narrower ones multiply by looking each half of a byte up in a table of 16; GFNI multiplies with
//! a matrix of bits.

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_add_epi8, _mm_and_si128, _mm_cmpgt_epi8, _mm_loadu_si128,
    _mm_set1_epi8, _mm_setzero_si128, _mm_shuffle_epi8, _mm_srli_epi64, _mm_storeu_si128,
    _mm_xor_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
    _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_xor_si512,
};

use super::field::{Factor, REDUCE};
use super::work::{Lanes, Work, drive};

/// The half of a byte, in each of them.
const NIBBLE: i8 = 0x0f;
const CARRY: i8 = REDUCE.cast_signed();
/// Doubling as a matrix.
const TWICE: Factor = Factor::new(2);

/// # Safety
/// The CPU has SSSE3.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn ssse3<W: Work>(work: &mut W) -> usize {
    // SAFETY: that is what these registers need.
    unsafe { drive::<Lanes16, W>(work) }
}

/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2<W: Work>(work: &mut W) -> usize {
    // SAFETY: that is what these registers need.
    unsafe { drive::<Lanes32, W>(work) }
}

/// # Safety
/// The CPU has AVX-512 F and BW, and GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn gfni<W: Work>(work: &mut W) -> usize {
    // SAFETY: that is what these registers need.
    unsafe { drive::<Lanes64, W>(work) }
}

#[derive(Clone, Copy)]
struct Lanes16(__m128i);

impl Lanes for Lanes16 {
    const LEN: usize = 16;
    type Times = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for SSSE3; so below.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the bytes, too; so below.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as for `load`.
        unsafe { _mm_storeu_si128(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as for `zero`.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: as for `zero`.
        unsafe {
            let carries = _mm_cmpgt_epi8(_mm_setzero_si128(), self.0);
            let reduce = _mm_and_si128(carries, _mm_set1_epi8(CARRY));
            Self(_mm_xor_si128(_mm_add_epi8(self.0, self.0), reduce))
        }
    }

    #[inline(always)]
    unsafe fn times(factor: &Factor) -> Self::Times {
        let (low, high) = (factor.low.as_ptr(), factor.high.as_ptr());
        // SAFETY: both tables have 16 bytes.
        unsafe { (_mm_loadu_si128(low.cast()), _mm_loadu_si128(high.cast())) }
    }

    #[inline(always)]
    unsafe fn multiply(self, (low, high): Self::Times) -> Self {
        // SAFETY: as for `zero`.
        unsafe {
            let mask = _mm_set1_epi8(NIBBLE);
            let upper = _mm_and_si128(_mm_srli_epi64::<4>(self.0), mask);
            let low = _mm_shuffle_epi8(low, _mm_and_si128(self.0, mask));
            Self(_mm_xor_si128(low, _mm_shuffle_epi8(high, upper)))
        }
    }
}

#[derive(Clone, Copy)]
struct Lanes32(__m256i);

impl Lanes for Lanes32 {
    const LEN: usize = 32;
    type Times = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for AVX2; so below.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the bytes, too; so below.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as for `load`.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as for `zero`.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: as for `zero`.
        unsafe {
            let carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduce = _mm256_and_si256(carries, _mm256_set1_epi8(CARRY));
            Self(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduce))
        }
    }

    #[inline(always)]
    unsafe fn times(factor: &Factor) -> Self::Times {
        let (low, high) = (factor.low.as_ptr(), factor.high.as_ptr());
        // SAFETY: both tables have 16 bytes, and the caller vouches for AVX2.
        unsafe {
            let twice =
                |table: *const u8| _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast()));
            (twice(low), twice(high))
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, (low, high): Self::Times) -> Self {
        // SAFETY: as for `zero`.
        unsafe {
            let mask = _mm256_set1_epi8(NIBBLE);
            let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask);
            let low = _mm256_shuffle_epi8(low, _mm256_and_si256(self.0, mask));
            Self(_mm256_xor_si256(low, _mm256_shuffle_epi8(high, upper)))
        }
    }
}

#[derive(Clone, Copy)]
struct Lanes64(__m512i);

impl Lanes for Lanes64 {
    const LEN: usize = 64;
    type Times = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for AVX-512 and GFNI; so below.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the bytes, too; so below.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as for `load`.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as for `zero`.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: as for `zero`.
        unsafe { self.multiply(Self::times(&TWICE)) }
    }

    #[inline(always)]
    unsafe fn times(factor: &Factor) -> Self::Times {
        // SAFETY: as for `zero`.
        unsafe { _mm512_set1_epi64(factor.matrix.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn multiply(self, matrix: Self::Times) -> Self {
        // SAFETY: as for `zero`.
        Self(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, matrix) })
    }
}

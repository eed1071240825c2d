//! Registers of 64-bit ARM: 16 bytes, with look-ups in tables of 16.

use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vreinterpretq_s8_u8,
    vreinterpretq_u8_s8, vshlq_n_u8, vshrq_n_s8, vshrq_n_u8, vst1q_u8,
};

use super::field::{Factor, REDUCE};
use super::work::{Lanes, Work, drive};

/// # Safety
/// The CPU has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn neon<W: Work>(work: &mut W) -> usize {
    // SAFETY: that is what these registers need.
    unsafe { drive::<Lanes16, W>(work) }
}

#[derive(Clone, Copy)]
struct Lanes16(uint8x16_t);

impl Lanes for Lanes16 {
    const LEN: usize = 16;
    type Times = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for NEON; so below.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the bytes, too; so below.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as for `load`.
        unsafe { vst1q_u8(to, self.0) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as for `zero`.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: as for `zero`.
        unsafe {
            let carries = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(self.0)));
            let reduce = vandq_u8(carries, vdupq_n_u8(REDUCE));
            Self(veorq_u8(vshlq_n_u8::<1>(self.0), reduce))
        }
    }

    #[inline(always)]
    unsafe fn times(factor: &Factor) -> Self::Times {
        // SAFETY: both tables have 16 bytes.
        unsafe {
            (
                vld1q_u8(factor.low.as_ptr()),
                vld1q_u8(factor.high.as_ptr()),
            )
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, (low, high): Self::Times) -> Self {
        // SAFETY: as for `zero`.
        unsafe {
            let low = vqtbl1q_u8(low, vandq_u8(self.0, vdupq_n_u8(0x0f)));
            Self(veorq_u8(low, vqtbl1q_u8(high, vshrq_n_u8::<4>(self.0))))
        }
    }
}

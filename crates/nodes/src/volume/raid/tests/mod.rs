//! Tests of volumes of RAID: images made byte by byte, opened complete, degraded and damaged, and written.

mod damage;
mod image_states;
mod kinds;
mod kit;
mod mirrors;
mod nosync;
mod parity;
mod regions;
mod resize;
mod write;

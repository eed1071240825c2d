//! Tests of the binary against real peers, real files and the guest.

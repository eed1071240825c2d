//! Tests of mirrors.

mod layout;

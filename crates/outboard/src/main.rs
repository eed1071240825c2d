//! Disks for small machines that live on another one.

fn main() {}

//! The door to the repository.

fn main() {}

//! Tests of the copy: what it decides, what it moves, and that no error is lost.

mod checkpoints;
mod data;
mod pure;
mod ranges;
mod resume_worlds;

//! Scheduling with an executor that is no fio, scratch directories, and small real runs.

mod real;
mod scheduling;
mod scratches;

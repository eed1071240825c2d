//! Scheduling with an executor that is no fio, scratch directories, and small real runs.

mod bad_input;
mod failing_tools;
mod loaded;
mod real;
mod resuming;
mod scheduling;
mod scratches;

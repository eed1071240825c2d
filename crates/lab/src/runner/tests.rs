//! Scheduling with an executor that is no fio, scratch directories, and small real runs.

mod bad_input;
mod failing_tools;
mod machine_load;
mod real;
mod resume;
mod scheduling;
mod scratches;
mod stopping_rule;

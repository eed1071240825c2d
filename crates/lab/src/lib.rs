//! Measurement: plans, runner, sensors, checks, store and report.

//! Per-core runtimes, io_uring, buffers and the clock.

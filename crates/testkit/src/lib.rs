//! Disks that fail, crash and hold still, for tests.

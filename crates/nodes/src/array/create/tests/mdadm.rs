//! mdadm.

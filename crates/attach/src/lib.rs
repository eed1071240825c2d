//! A block device on a client: the kernel's nbd, or FUSE and loop.

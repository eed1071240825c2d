//! Every virtual disk: files, memory and what is composed of them.

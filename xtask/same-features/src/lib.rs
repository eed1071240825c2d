//! Nothing: a package for its dependencies alone.
//!
//! Cargo gives a dependency all the features that any selected package wants of it, so a step that switches on volumes on object
//! stores would have most dependencies, and with them all of the workspace, compiled once more than a step that does not. As this
//! package is part of the workspace and depends on what those volumes use, every step that selects the whole workspace shares
//! them, and the two kinds of steps differ in `bucket` and `outboard` alone. The other way round, without it, the checks would
//! either compile all twice or never build the binary as it is packaged, without volumes on object stores.

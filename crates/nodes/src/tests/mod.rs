//! Tests of nodes in stacks: whatever stands on whatever keeps the contract.

mod identity;
mod shape;
mod stacks;

//! Tests of nodes in stacks: any node on any other keeps the contract.

mod identity;
mod shape;
mod stacks;

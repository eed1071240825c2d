//! Tests of thin pools, thin volumes and caches.

mod caches;
mod damage;
mod formats;
mod image;
mod large;
mod reads;
mod sections;
mod tools;

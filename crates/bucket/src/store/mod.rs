//! The object store: how it is reached, probed and retried.

mod conflict_filter;
mod connect;
mod header;
mod objects;
mod probe;
mod request_meter;
mod retry;

#[cfg(test)]
pub(crate) use self::conflict_filter::ConflictFilter;
#[cfg(test)]
pub(crate) use self::connect::install_tls;
pub(crate) use self::connect::{StoreAccess, read_key};
pub use self::connect::{StoreOptions, shares_store};
pub(crate) use self::header::{FoundHeader, create_header, decode_header, read_header};
pub(crate) use self::objects::{delete_object, read_object, write_object};
pub(crate) use self::probe::probe;
#[cfg(test)]
pub(crate) use self::request_meter::{RequestCounts, RequestMeter};
pub(crate) use self::retry::{RetryPolicy, retry};

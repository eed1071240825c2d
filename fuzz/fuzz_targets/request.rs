//! Any header of a request: what is accepted is written back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::{REQUEST_LEN, Request};

fuzz_target!(|bytes: [u8; REQUEST_LEN]| {
    if let Ok(request) = Request::decode(&bytes) {
        assert_eq!(request.encode(), bytes);
    }
});

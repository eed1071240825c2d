//! Any bytes as the header of a request, compact and extended: what is accepted is written back as it
//! was, and any bytes as the payload of a status request.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::{EXTENDED_REQUEST_LEN, Framing, MetaContext, REQUEST_LEN, Request, StatusFilter};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(request)) = Request::decode_as(Framing::Simple, bytes) {
        assert_eq!(request.encode(), bytes[..REQUEST_LEN]);
        assert!(request.payload_len(Framing::Simple) <= u32::MAX.into());
    }
    if let Ok(Some(request)) = Request::decode_as(Framing::Extended, bytes) {
        assert_eq!(request.encode_extended(), bytes[..EXTENDED_REQUEST_LEN]);
    }
    let contexts = [1, 2].map(|id| MetaContext {
        id,
        name: format!("x-fuzz:{id}"),
    });
    if let Ok(filter) = StatusFilter::decode(bytes, &contexts) {
        assert_eq!(filter.encode(), bytes);
    }
});

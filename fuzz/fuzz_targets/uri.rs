//! Any text as an address: what is accepted is written so that it is read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd_proto::NbdUri;

fuzz_target!(|text: &str| {
    if let Ok(uri) = text.parse::<NbdUri>() {
        assert_eq!(uri.to_string().parse(), Ok(uri));
    }
});

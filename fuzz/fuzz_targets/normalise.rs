//! Whatever rows hold: mapping, phones, recipients and rejects.
#![no_main]

#[allow(dead_code, reason = "each target runs one of them")]
#[path = "../../tests/corpus/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::normalise(data));

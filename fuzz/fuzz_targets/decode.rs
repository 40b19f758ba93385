//! Whatever a text is: records and their positions, the dialect given or found.
#![no_main]

#[allow(dead_code, reason = "each target runs one of them")]
#[path = "../../tests/corpus/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::decode(data));

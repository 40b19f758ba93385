//! Whatever a file is: opening, unpacking, character sets, sheets, seeking.
#![no_main]

#[allow(dead_code, reason = "each target runs one of them")]
#[path = "../../tests/corpus/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::source(data));

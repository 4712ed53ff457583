#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| goodput_proxy::fuzzing::run("strip", data));

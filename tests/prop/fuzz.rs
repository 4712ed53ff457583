//! The fuzz targets on a stable toolchain: every seed as it is, then a bounded number of mutations of each, always the same ones.
//!
//! `tests/fuzz/run` drives the same targets with coverage for as long as wanted. An input that fails is printed as bytes, to become
//! a test beside the code.

#[path = "../fuzz/seeds.rs"]
mod seeds;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use goodput_proxy::fuzzing::{TARGETS, Target};

/// Mutated inputs per target.
const INPUTS: usize = 2_000;

/// Longest input.
const MAX_LEN: usize = 4_096;

const WORDS: [&[u8]; 22] = [
    b"\r\n",
    b"\n\n",
    b"\r",
    b"\0",
    b"\xEF\xBB\xBF",
    b"data: ",
    b"event: error\n",
    b"[DONE]",
    b"{\"",
    b"\"}",
    b"\\u",
    b"\\ud83d",
    b"\"usage\":{}",
    b"\"choices\":[]",
    b"\"model\":\"x\",",
    b"Connection: close\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"FFFFFFFF",
    b": ",
    b"  ",
];

/// xorshift64*: the same inputs on every run and machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % n.max(1)
    }
}

fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let len = random.below(16).min(input.len() - at);
        match random.below(7) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = random.next().to_le_bytes()[0],
            2 => drop(input.drain(at..at + len)),
            3 => drop(input.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
            4 => drop(input.splice(at..at, input[at..at + len].to_vec())),
            5 => input.truncate(at),
            _ => {
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
    input.truncate(MAX_LEN);
}

fn try_on(name: &str, target: Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        eprintln!("{name} fails on b\"{}\"", input.escape_ascii());
        resume_unwind(panic);
    }
}

fn drive(name: &str) {
    let (_, target) = TARGETS.into_iter().find(|(known, _)| *known == name).expect("a target");
    let seeds = seeds::seeds(name, Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for seed in &seeds {
        try_on(name, target, seed);
    }
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..INPUTS {
        let mut input = seeds[random.below(seeds.len())].clone();
        let other = &seeds[random.below(seeds.len())];
        mutate(&mut input, other, &mut random);
        try_on(name, target, &input);
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            drive(stringify!($name));
        })*

        #[test]
        fn every_target_is_driven_here_and_by_cargo_fuzz() {
            let driven = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|(name, _)| name), driven);
            let manifest = include_str!("../fuzz/Cargo.toml");
            for name in driven {
                assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
            }
        }
    };
}

targets! { decode_any sse inflate request_scan config_yaml headers relay_head chunked strip splice }

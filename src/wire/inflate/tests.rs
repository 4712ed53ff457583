use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

fn gzip_of(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd_of(data: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(data, 3).expect("memory")
}

/// `text` as an uncompressed brotli stream: window bits 16, one stored block, an empty last block.
fn brotli_of(text: &[u8]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0, 1); // WBITS: 16
    bits.put(0, 1); // not the last block
    bits.put(0, 2); // four nibbles of length
    bits.put(text.len() - 1, 16);
    bits.put(1, 1); // stored
    bits.align();
    bits.bytes.extend_from_slice(text);
    bits.bytes.push(0b11); // last, empty
    bits.bytes
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: usize,
}

impl Bits {
    fn put(&mut self, value: usize, count: usize) {
        for i in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().expect("just pushed") |= (((value >> i) & 1) as u8) << (self.used % 8);
            self.used += 1;
        }
    }

    fn align(&mut self) {
        self.used = self.bytes.len() * 8;
    }
}

fn inflate<'a>(encoding: &str, pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, Degraded> {
    let mut inflate = Inflate::for_encoding(encoding).expect("a coding");
    let mut out = Vec::new();
    for piece in pieces {
        inflate.feed(piece, |plain| out.extend_from_slice(plain))?;
    }
    Ok(out)
}

fn sample() -> Vec<u8> {
    (0..400)
        .flat_map(|i| format!("data: {{\"i\":{i},\"text\":\"token {}\"}}\n\n", i * i).into_bytes())
        .collect()
}

// P069
#[test]
fn every_coding_inflates_at_any_cut() {
    let plain = sample();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(&plain).and_then(|()| raw.write_all(&plain)).expect("memory");
    let two_members = [gzip_of(&plain[..5000]), gzip_of(&plain[5000..])].concat();
    let two_frames = [zstd_of(&plain[..5000]), zstd_of(&plain[5000..])].concat();
    for (encoding, body) in [
        ("gzip", gzip_of(&plain)),
        ("x-gzip", gzip_of(&plain)),
        ("identity, GZip", two_members),
        ("deflate", zlib.finish().expect("memory")),
        ("deflate", raw.finish().expect("memory")),
        ("br", brotli_of(&plain)),
        ("zstd", zstd_of(&plain)),
        ("zstd", two_frames),
    ] {
        assert_eq!(
            inflate(encoding, std::iter::once(body.as_slice())).as_deref(),
            Ok(plain.as_slice()),
            "{encoding}"
        );
        assert_eq!(
            inflate(encoding, body.chunks(1)).as_deref(),
            Ok(plain.as_slice()),
            "{encoding} byte by byte"
        );
        for cut in (1..body.len()).step_by(97) {
            let (a, b) = body.split_at(cut);
            assert_eq!(
                inflate(encoding, [a, b].into_iter()).as_deref(),
                Ok(plain.as_slice()),
                "{encoding} cut at {cut}"
            );
        }
    }
}

// P069
#[test]
fn a_senders_flush_is_seen_at_once() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("an encoder");
    let mut seen = [Vec::new(), Vec::new()];
    let mut inflates = ["gzip", "zstd"].map(|e| Inflate::for_encoding(e).expect("a coding"));
    let mut sent = [0, 0];
    for event in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
        gzip.write_all(event.as_bytes()).and_then(|()| gzip.flush()).expect("memory");
        zstd.write_all(event.as_bytes()).and_then(|()| zstd.flush()).expect("memory");
        for (i, bytes) in [gzip.get_ref(), zstd.get_ref()].into_iter().enumerate() {
            seen[i].clear();
            inflates[i]
                .feed(&bytes[sent[i]..], |plain| seen[i].extend_from_slice(plain))
                .expect("a valid stream");
            sent[i] = bytes.len();
            assert_eq!(seen[i], event.as_bytes());
        }
    }
}

#[test]
fn identity_is_no_coding() {
    for encoding in ["", "identity", " Identity , identity", ","] {
        assert!(Inflate::for_encoding(encoding).is_none(), "{encoding}");
    }
}

#[test]
fn what_cannot_be_read_is_reported_once() {
    for encoding in ["gzip, br", "compress", "zstd,gzip", "aes128gcm"] {
        let mut inflate = Inflate::for_encoding(encoding).expect("a coding");
        assert!(!inflate.is_readable());
        assert_eq!(
            inflate.feed(b"x", |_| panic!("no output")),
            Err(Degraded::Encoding),
            "{encoding}"
        );
        assert_eq!(inflate.feed(b"y", |_| panic!("no output")), Ok(()));
    }
}

#[test]
fn a_broken_body_is_reported_once_and_never_panics() {
    let plain = sample();
    for (encoding, mut body) in [
        ("gzip", gzip_of(&plain)),
        ("zstd", zstd_of(&plain)),
        ("br", brotli_of(&plain)),
        ("deflate", vec![0x78; 99]),
    ] {
        assert_eq!(
            inflate(encoding, std::iter::once(b"data: {}\n\n".repeat(9).as_slice())),
            Err(Degraded::Encoding),
            "{encoding}"
        );
        for place in 0..body.len().min(60) {
            body[place] ^= 0x55;
            let _ = inflate(encoding, body.chunks(7));
            body[place] ^= 0x55;
        }
    }
}

#[test]
fn a_decompression_bomb_ends_at_the_cap() {
    let zeros = vec![0; 4 * MAX_OUTPUT];
    for (encoding, body) in [("gzip", gzip_of(&zeros)), ("zstd", zstd_of(&zeros))] {
        let mut inflate = Inflate::for_encoding(encoding).expect("a coding");
        let mut got = 0;
        assert_eq!(
            inflate.feed(&body, |plain| got += plain.len()),
            Err(Degraded::InflateCap),
            "{encoding}"
        );
        assert!(got <= MAX_OUTPUT, "{encoding}: {got}");
        assert!(!inflate.is_readable());
        assert_eq!(inflate.feed(&body, |_| panic!("no output")), Ok(()));
    }
}

#[test]
fn a_zstd_window_beyond_the_content_codings_limit_is_refused() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
    encoder.window_log(ZSTD_WINDOW_LOG + 1).expect("a valid window");
    encoder.write_all(&sample()).expect("memory");
    let body = encoder.finish().expect("memory");
    assert_eq!(inflate("zstd", std::iter::once(body.as_slice())), Err(Degraded::Encoding));
}

#[test]
fn a_gzip_header_is_passed_over_whatever_it_holds() {
    let plain = sample();
    let builder = flate2::GzBuilder::new()
        .extra(vec![7; 300])
        .filename("a name")
        .comment("a comment");
    let mut encoder = builder.write(Vec::new(), Compression::default());
    encoder.write_all(&plain).expect("memory");
    let body = encoder.finish().expect("memory");
    let mut with_crc = gzip_of(&plain);
    with_crc[3] = 1 << 1;
    with_crc.splice(10..10, [1, 2]);
    let mut empty_extra = gzip_of(&plain);
    empty_extra[3] = 1 << 2;
    empty_extra.splice(10..10, [0, 0]);
    for body in [body, with_crc, empty_extra] {
        for size in [1, 3, 311, body.len()] {
            assert_eq!(inflate("gzip", body.chunks(size)).as_ref(), Ok(&plain), "pieces of {size}");
        }
    }
}

#[test]
fn a_gzip_member_with_a_wrong_sum_or_length_or_header_is_broken() {
    let body = gzip_of(&sample());
    for place in [0, 1, 2, body.len() - 8, body.len() - 1] {
        let mut wrong = body.clone();
        wrong[place] ^= 1;
        assert_eq!(inflate("gzip", wrong.chunks(5)), Err(Degraded::Encoding), "byte {place}");
    }
    let mut reserved = body;
    reserved[3] = 1 << 5;
    assert_eq!(inflate("gzip", reserved.chunks(5)), Err(Degraded::Encoding));
}

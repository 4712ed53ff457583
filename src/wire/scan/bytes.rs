//! Finding the byte that matters next, eight at a time, in a long run with vector instructions.

use memchr::memchr2;

/// Bytes looked at together once a run has proved long.
const BLOCK: usize = 64;

/// Bytes of a long string that are looked at twice, while they are in the nearest cache.
const STRETCH: usize = 4096;

/// Bytes between brackets that are looked at one by one, before blocks are.
const NEAR: usize = 16;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The high bit of the first byte of `word` that is below `limit` (at most 0x80), and possibly of later ones.
#[inline]
const fn below(word: u64, limit: u64) -> u64 {
    word.wrapping_sub(ONES.wrapping_mul(limit)) & !word & HIGHS
}

/// Where whole blocks of bytes that are all but `special` end, from `at` on.
#[inline]
fn pass_blocks(bytes: &[u8], mut at: usize, special: impl Fn(u8) -> bool) -> usize {
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>())
        && !block.iter().fold(false, |any, byte| any | special(*byte))
    {
        at += BLOCK;
    }
    at
}

/// The index of the first byte from `at` on that ends a run of plain string content: `"`, `\` or a control character; else the
/// length.
#[inline]
pub(super) fn string_end(bytes: &[u8], at: usize) -> usize {
    let long = at.saturating_add(BLOCK);
    let end = string_end_within(&bytes[..bytes.len().min(long)], at);
    if end < long { end } else { long_string_end(bytes, end) }
}

/// [`string_end`] for a long run: apart, so that the short way needs no room for vectors. A quote or backslash is searched for with
/// the widest vectors that the processor has, control characters with those that all have: two looks cost less than one for both.
#[inline(never)]
fn long_string_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let stretch = &bytes[at..bytes.len().min(at.saturating_add(STRETCH))];
        let plain = memchr2(b'"', b'\\', stretch).unwrap_or(stretch.len());
        let lowest = stretch[..plain].iter().fold(u8::MAX, |lowest, byte| lowest.min(*byte));
        if lowest < 0x20 {
            return at + stretch.iter().take_while(|byte| **byte >= 0x20).count();
        }
        at += plain;
        if plain < stretch.len() || stretch.is_empty() {
            return at;
        }
    }
}

/// [`string_end`] for a short run.
#[inline]
fn string_end_within(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // With its second bit flipped, a quote is 0x20 and a control character still below that; nothing else gets there.
        let quote_or_control = below(word ^ (ONES * 0x02), 0x21);
        let backslash = below(word ^ (ONES * b'\\' as u64), 1);
        let hit = quote_or_control | backslash;
        if hit != 0 {
            return at + hit.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
            break;
        }
        at += 1;
    }
    at
}

/// The length of the string content that `bytes` begins with, when its closing quote follows and the scanner would take it.
pub(crate) fn text_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at = string_end(bytes, at);
        match *bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => match *bytes.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => at += 6,
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// The index of the first bracket, brace or quote from `at` on; else the length.
#[inline]
pub(super) fn bracket_or_quote(bytes: &[u8], at: usize) -> usize {
    // Most often it is near, and a block costs as much as all of this.
    let near = bytes.len().min(at.saturating_add(NEAR));
    let end = bracket_or_quote_within(&bytes[..near], at);
    if end < near || near == bytes.len() {
        return end;
    }
    far_bracket_or_quote(bytes, end)
}

#[inline(never)]
fn far_bracket_or_quote(bytes: &[u8], at: usize) -> usize {
    let special = |byte: u8| byte == b'"' || byte & !0x20 == b'[' || byte & !0x20 == b']';
    bracket_or_quote_within(bytes, pass_blocks(bytes, at, special))
}

#[inline]
fn bracket_or_quote_within(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        if matches!(byte, b'"' | b'[' | b']' | b'{' | b'}') {
            break;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found_at_every_place() {
        for special in [b'"', b'\\', 0x00, 0x0A, 0x1F] {
            for place in (0..40).chain([63, 64, 65, 71, 72, 128, 191, 199]) {
                for other in [0x20, 0x21, 0x23, 0x5B, 0x5D, 0x7F, 0x80, 0xA2, 0xDC, 0xFF] {
                    let mut bytes = [other; 201];
                    bytes[place] = special;
                    bytes[200] = b'"';
                    for from in 0..=place {
                        assert_eq!(string_end(&bytes, from), place, "{special:#x} among {other:#x} at {place}");
                    }
                }
            }
        }
        for special in [b'"', b'\\', 0x1F] {
            for place in [BLOCK + STRETCH - 1, BLOCK + STRETCH, BLOCK + STRETCH + 1, 3 * STRETCH] {
                let mut bytes = vec![b'x'; 4 * STRETCH];
                (bytes[place], bytes[place + 1], bytes[place + 2]) = (special, 0x00, b'"');
                assert_eq!(string_end(&bytes, 0), place, "{special:#x} at {place}");
            }
        }
        for len in [1000, BLOCK + STRETCH, BLOCK + 2 * STRETCH] {
            assert_eq!(string_end(&vec![b'x'; len], 0), len);
        }
        assert_eq!(string_end(b"plain text of a string", 0), 22);
        assert_eq!(string_end(b"", 0), 0);
        assert_eq!(string_end(b"abc", 7), 7);
    }

    #[test]
    fn the_first_bracket_brace_or_quote_is_found_at_every_place() {
        for special in *b"\"[]{}" {
            for place in 0..140 {
                let mut bytes = [b'7'; 141];
                bytes[place] = special;
                for from in 0..=place {
                    assert_eq!(bracket_or_quote(&bytes, from), place);
                }
            }
        }
        for other in (0..=u8::MAX).filter(|byte| !b"\"[]{}".contains(byte)) {
            assert_eq!(bracket_or_quote(&[other; 70], 0), 70, "{other:#x}");
        }
    }
}

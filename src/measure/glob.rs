//! The one wildcard of the configuration: `*` matches any run of characters, the empty one included.

/// Whether `text` matches `pattern` as a whole. Linear in the pattern times the text at worst, without recursion.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // The latest `*`, and where its run ends so far: a mismatch lets that run take one more byte.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, run)) = star {
            star = Some((at, run + 1));
            p = at + 1;
            t = run + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_star_is_exact() {
        assert!(glob("llama-3", "llama-3"));
        assert!(!glob("llama-3", "llama-3.1"));
        assert!(!glob("llama-3.1", "llama-3"));
        assert!(glob("", ""));
    }

    #[test]
    fn a_star_matches_any_run_also_an_empty_one() {
        for text in ["llama", "llama-3", "meta/llama"] {
            assert!(glob("*llama*", text), "{text}");
        }
        assert!(glob("*", ""));
        assert!(glob("a*b*c", "aXbbYc"));
        assert!(!glob("a*b*c", "aXc"));
        assert!(!glob("llama*", "meta/llama"));
    }
}

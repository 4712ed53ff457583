//! What is wrong with a configuration, for the person who has to mend it.

use std::fmt;

/// Longest value repeated in a problem, characters; the rest is cut.
const MAX_VALUE: usize = 120;

/// One problem: where, what was written, why that can't be, and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key (`routes[0].slos[1].ttft`), the variable (`GOODPUT__LISTEN (environment)`), the flag (`--listen`) or the file.
    pub path: String,
    /// The value as written; empty where nothing was.
    pub value: String,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: String,
}

impl Problem {
    /// A problem at `path`.
    pub(super) fn new(path: impl Into<String>, value: impl Into<String>, wrong: Wrong) -> Self {
        Self {
            path: path.into(),
            value: value.into(),
            what: wrong.what,
            right: wrong.right,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        if !self.value.is_empty() {
            write!(f, "{}: ", self.value)?;
        }
        write!(f, "{}; {}", self.what, self.right)
    }
}

/// The part of a problem that a single value's parser knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) right: String,
}

impl Wrong {
    pub(super) fn new(what: impl Into<String>, right: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            right: right.into(),
        }
    }
}

/// `text` in quotes for a problem: control characters escaped (a terminal reads this), cut at [`MAX_VALUE`], credentials of a URL
/// masked.
pub(super) fn quoted(text: &str) -> String {
    let masked = mask_userinfo(text);
    let mut shown: String = masked.chars().take(MAX_VALUE).collect();
    if shown.len() < masked.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// `url` with the part before `@` in its authority replaced by `***`.
pub(super) fn mask_userinfo(url: &str) -> String {
    let Some(start) = url.find("://").map(|at| at + 3) else {
        return url.to_owned();
    };
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    match url[start..end].rfind('@') {
        Some(at) => format!("{}***{}", &url[..start], &url[start + at..]),
        None => url.to_owned(),
    }
}

/// The entry of `known` that `word` was probably meant to be.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this similarity (0 to 1) a suggestion is a guess.
    const CLOSE: f64 = 0.8;
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= CLOSE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// `did you mean …?` or the list of what there is.
pub(super) fn suggestion(word: &str, known: &[&str]) -> String {
    match did_you_mean(word, known.iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("there is {}", one_of(known)),
    }
}

/// "`a`, `b` or `c`".
pub(super) fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((only, _)) => only.clone(),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_path_value_what_right() {
        let wrong = || Wrong::new("is not a port", "write a number from 0 to 65535");
        let at = |value: &str| Problem::new("listen", value, wrong()).to_string();
        assert_eq!(at("x"), "listen: x: is not a port; write a number from 0 to 65535");
        assert_eq!(at(""), "listen: is not a port; write a number from 0 to 65535");
    }

    #[test]
    fn a_shown_value_is_escaped_cut_and_masked() {
        assert_eq!(quoted("a\u{1b}[31m\n"), r#""a\u{1b}[31m\n""#);
        assert_eq!(quoted(&"x".repeat(200)), format!("\"{}…\"", "x".repeat(MAX_VALUE)));
        assert_eq!(quoted("http://user:pa@ss@host:1/p@q"), r#""http://***@host:1/p@q""#);
        assert_eq!(quoted("http://host/p@q"), r#""http://host/p@q""#);
    }

    #[test]
    fn a_near_miss_is_suggested_and_a_far_one_lists_all() {
        assert_eq!(suggestion("upstraem", &["listen", "upstream"]), "did you mean `upstream`?");
        assert_eq!(
            suggestion("zzz", &["listen", "upstream", "admin"]),
            "there is `listen`, `upstream` or `admin`"
        );
    }
}

//! The bearer token of the admin port. It is compared in constant time, never shown, and read again when its file changes.

use std::fmt;
use std::path::Path;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

use crate::config::Problem;
use crate::mounted::{Mounted, Source};

/// Shortest token, characters: one that can be tried out is none.
const MIN: usize = 16;
/// Longest token, characters; an admin head is bounded anyway.
const MAX: usize = 4096;

/// The token.
pub struct Token(Box<[u8]>);

impl Token {
    /// The token in the file at `path`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn mounted(path: &Path) -> Result<Mounted<Self>, Vec<Problem>> {
        let source = Source::new("admin_auth.token_file", path);
        Mounted::new(vec![source.clone()], move |contents| {
            let right = format!("write one line of {MIN} to {MAX} visible ASCII characters, as of `openssl rand -hex 32`");
            let token = contents[0].trim_ascii();
            let fit = (MIN..=MAX).contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
            if fit {
                Ok(Self(token.into()))
            } else {
                Err(source.problem("holds no token", right))
            }
        })
    }

    /// Whether `headers` carry it, as `Authorization: Bearer …`, once.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (given.next(), given.next()) else {
            return false;
        };
        let Some((scheme, token)) = value.as_bytes().split_at_checked("Bearer ".len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"Bearer ") && self.0.ct_eq(token.trim_ascii()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

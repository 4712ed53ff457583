//! The words that a long run (chaos, soak, cost) is started with.

use std::process::ExitCode;

use super::process::Program;

/// What was asked for.
#[derive(Debug)]
pub struct Arguments(Vec<String>);

impl Arguments {
    /// The words behind the program's name. When the first is `proxy`, this process is to be the proxy: it is, and what it ended with
    /// is the error.
    pub fn read() -> Result<Self, ExitCode> {
        let mut words: Vec<_> = std::env::args_os().collect();
        if words.get(1).is_some_and(|first| first == "proxy") {
            words.remove(1);
            return Err(goodput_proxy::cli::main(words));
        }
        Ok(Self(std::env::args().skip(1).collect()))
    }

    /// Whether `word` was given.
    pub fn has(&self, word: &str) -> bool {
        self.0.iter().any(|given| given == word)
    }

    /// The number behind `name`.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.behind(name).map_or(default, |n| {
            n.parse().unwrap_or_else(|_| panic!("{name} takes a number, not {n}"))
        })
    }

    /// The proxy at the path behind `--proxy`; else the present program, called with `proxy` as its first word.
    pub fn program(&self) -> Program {
        match self.behind("--proxy") {
            Some(path) => Program {
                path: path.into(),
                arguments: Vec::new(),
            },
            None => Program {
                path: std::env::current_exe().expect("this program has a path"),
                arguments: vec!["proxy".to_owned()],
            },
        }
    }

    fn behind(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|given| given == name)?;
        self.0.get(at + 1).map(String::as_str)
    }
}

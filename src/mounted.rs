//! What is read from files that may be swapped while the proxy runs: certificates, keys, a token.
//!
//! The files are read through their names and compared by content, so that the symlinks of a mounted Secret do not matter; a change
//! counts once two readings agree, since certificate and key may be written one after the other. What cannot be used is reported and
//! the former stays. No copy of a file is kept, only a fingerprint.

use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::config::Problem;

/// Largest file read, bytes.
const MAX_FILE: u64 = 1 << 20;

/// A file, and the configuration key that names it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) key: &'static str,
    pub(crate) path: PathBuf,
}

/// Makes a value of the contents of the sources, in their order.
type Make<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, Problem> + Send + Sync>;

/// A value made of files.
pub struct Mounted<T> {
    sources: Vec<Source>,
    make: Make<T>,
    watched: Mutex<Settling>,
    current: RwLock<Arc<T>>,
}

/// Tells when something that is looked at again and again is to be acted upon.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// What was acted upon last.
    tried: u64,
    /// Something else, seen once.
    fresh: Option<u64>,
}

/// What takes part in reloads.
pub(crate) trait Refresh: Send + Sync {
    /// Reads the files again. None: nothing new. With `at_once`, one reading is enough.
    fn refresh(&self, at_once: bool) -> Option<Result<(), Vec<Problem>>>;
}

impl Source {
    pub(crate) fn new(key: &'static str, path: &Path) -> Self {
        Self {
            key,
            path: path.to_owned(),
        }
    }

    /// Something is wrong with it.
    pub(crate) fn problem(&self, what: impl Into<String>, right: impl Into<String>) -> Problem {
        Problem {
            path: self.key.to_owned(),
            value: format!("{:?}", self.path.display().to_string()),
            what: what.into(),
            right: right.into(),
        }
    }

    fn read(&self) -> Result<Vec<u8>, Problem> {
        let readable = "name a file that the proxy can read";
        let failed = |error: std::io::Error| self.problem(format!("cannot be read ({error})"), readable);
        let size = fs::metadata(&self.path).map_err(failed)?.len();
        if size > MAX_FILE {
            return Err(self.problem(format!("has {size} bytes"), "name a file of at most 1 MiB"));
        }
        fs::read(&self.path).map_err(failed)
    }
}

impl<T> Mounted<T> {
    /// Reads `sources` for the first time.
    pub(crate) fn new(
        sources: Vec<Source>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, Problem> + Send + Sync + 'static,
    ) -> Result<Self, Vec<Problem>> {
        let contents = read(&sources)?;
        let value = make(&contents).map_err(|problem| vec![problem])?;
        Ok(Self {
            sources,
            make: Box::new(make),
            watched: Mutex::new(Settling::new(&contents)),
            current: RwLock::new(Arc::new(value)),
        })
    }

    /// The present value.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Send + Sync> Refresh for Mounted<T> {
    fn refresh(&self, at_once: bool) -> Option<Result<(), Vec<Problem>>> {
        let read = read(&self.sources);
        let seen = read.as_ref().map_err(|problems| format!("{problems:?}"));
        if !self
            .watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_due(&seen, at_once)
        {
            return None;
        }
        let made = read.and_then(|contents| (self.make)(&contents).map_err(|problem| vec![problem]));
        Some(made.map(|value| {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
        }))
    }
}

impl<T> fmt::Debug for Mounted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mounted")
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

impl Settling {
    /// `seen` was acted upon.
    pub(crate) fn new(seen: &(impl Hash + ?Sized)) -> Self {
        // As a successful reading, which is what `is_due` will be shown.
        Self {
            tried: fingerprint(&Ok::<_, String>(seen)),
            fresh: None,
        }
    }

    /// Whether this reading is to be acted upon: it is new and, unless `at_once`, the second of its kind.
    pub(crate) fn is_due<S: Hash>(&mut self, seen: &Result<S, String>, at_once: bool) -> bool {
        let seen = fingerprint(seen);
        let new = seen != self.tried;
        if new && (at_once || self.fresh == Some(seen)) {
            *self = Self {
                tried: seen,
                fresh: None,
            };
            return true;
        }
        self.fresh = new.then_some(seen);
        false
    }
}

fn fingerprint(seen: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    seen.hash(&mut hasher);
    hasher.finish()
}

/// The content of every source, or what is wrong with each that cannot be read.
fn read(sources: &[Source]) -> Result<Vec<Vec<u8>>, Vec<Problem>> {
    let (mut contents, mut problems) = (Vec::new(), Vec::new());
    for source in sources {
        match source.read() {
            Ok(content) => contents.push(content),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(contents) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(text: &str) -> Result<&str, String> {
        Ok(text)
    }

    #[test]
    fn a_change_is_due_when_two_readings_agree_and_only_once() {
        let mut settling = Settling::new("a");
        let due = ["a", "b", "bc", "bc", "bc", "a", "a"].map(|text| settling.is_due(&ok(text), false));
        assert_eq!(due, [false, false, false, true, false, false, true]);
    }

    #[test]
    fn one_reading_is_enough_for_whoever_asks() {
        let mut settling = Settling::new("a");
        assert!(!settling.is_due(&ok("a"), true));
        assert!(settling.is_due(&ok("b"), true));
        assert!(!settling.is_due(&ok("b"), false));
    }

    #[test]
    fn a_failure_is_due_once_and_what_comes_back_is_due_again() {
        let mut settling = Settling::new("a");
        let gone: Result<&str, String> = Err("gone".to_owned());
        let due = [&gone, &gone, &gone, &ok("a"), &ok("a"), &ok("a")].map(|read| settling.is_due(read, false));
        assert_eq!(due, [false, true, false, false, true, false]);
    }

    #[test]
    fn what_cannot_be_used_leaves_the_former_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        fs::write(&path, "1").unwrap();
        let source = Source::new("number", &path);
        let make = {
            let source = source.clone();
            move |contents: &[Vec<u8>]| {
                let text = String::from_utf8_lossy(&contents[0]).into_owned();
                text.parse::<u32>().map_err(|_| source.problem("is no number", "write one"))
            }
        };
        let mounted = Mounted::new(vec![source], make).unwrap();
        assert_eq!((*mounted.get(), mounted.refresh(false)), (1, None));
        fs::write(&path, "x").unwrap();
        let problem = mounted.refresh(true).unwrap().unwrap_err().remove(0).to_string();
        assert_eq!(
            problem,
            format!("number: {:?}: is no number; write one", path.display().to_string())
        );
        assert_eq!(*mounted.get(), 1);
        fs::write(&path, "2").unwrap();
        assert_eq!((mounted.refresh(false), *mounted.get()), (None, 1));
        assert_eq!((mounted.refresh(false), *mounted.get()), (Some(Ok(())), 2));
    }
}

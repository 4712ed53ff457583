//! A new configuration while the proxy runs: on SIGHUP, and when the file's content changes; certificates and tokens likewise.
//!
//! A mounted ConfigMap is swapped by symlink, so the file is read through its name every [`POLL_EVERY`] and compared by content; a
//! change counts once two reads agree, since an editor may be in the middle of writing. Environment and flags stand above the file
//! as at the start.
//!
//! A file is taken whole or refused whole: any problem in it, and any change of what only a restart can change, leaves everything
//! as it is, is logged and counted. No stream is touched either way.

mod fixed;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;
use std::{io, thread};

use crate::config::{Config, File, Sources};
use crate::expose::ProxyStats;
use crate::mounted::{Refresh, Settling};
use crate::observe::Observer;
use crate::telemetry::Level;

/// How often the file is looked at.
pub const POLL_EVERY: Duration = Duration::from_secs(2);

/// Asks for a reload: what SIGHUP does. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Hangup(Arc<(Mutex<Wish>, Condvar)>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    Nothing,
    Reload,
    /// No more reloads.
    End,
}

impl Hangup {
    /// Asks for one; several at once are one.
    pub fn ask(&self) {
        self.wish(Wish::Reload);
    }

    fn wish(&self, wish: Wish) {
        let mut now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *now != Wish::End {
            *now = wish;
        }
        self.0.1.notify_one();
    }

    /// The next wish, or none within `patience`.
    fn wait(&self, patience: Duration) -> Wish {
        let now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(now, patience, |wish| *wish == Wish::Nothing);
        let (mut now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *now == Wish::End {
            Wish::End
        } else {
            std::mem::take(&mut *now)
        }
    }
}

/// Reloads end with it.
#[derive(Debug)]
pub(crate) struct Running(Hangup);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.wish(Wish::End);
    }
}

/// Where a running proxy finds its next configuration.
#[derive(Debug, Default)]
pub struct Origin {
    /// The file's path; none: there is nothing to reload.
    pub path: Option<PathBuf>,
    /// What the configuration in force was made of.
    pub sources: Sources,
    /// Sets the log's filter; none: the log is somebody else's.
    pub level: Option<Level>,
    /// Who asks for a reload.
    pub hangup: Hangup,
}

/// The configuration in force, and how reloads went.
#[derive(Debug)]
pub(crate) struct Current {
    config: RwLock<Arc<Config>>,
    taken: AtomicU64,
    refused: AtomicU64,
    /// One bit per file or group of files whose last change was refused: the configuration's is the first.
    at_odds: AtomicU64,
}

/// The bit of the configuration file.
const CONFIG: u64 = 1;

impl Current {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config: RwLock::new(Arc::new(config)),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            at_odds: AtomicU64::new(0),
        }
    }

    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds what a scrape shows of reloads.
    pub(crate) fn add_to(&self, stats: &mut ProxyStats) {
        stats.reloads_taken = self.taken.load(Relaxed);
        stats.reloads_refused = self.refused.load(Relaxed);
        stats.last_reload_refused = self.at_odds.load(Relaxed) != 0;
    }

    fn set(&self, config: Config) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    fn count_taken(&self, of: u64) {
        self.taken.fetch_add(1, Relaxed);
        self.at_odds.fetch_and(!of, Relaxed);
    }

    /// Logs why a reload was refused, and counts it.
    fn refuse(&self, of: u64, problems: &[String]) {
        self.refused.fetch_add(1, Relaxed);
        self.at_odds.fetch_or(of, Relaxed);
        for problem in problems {
            tracing::error!(problem, "configuration not reloaded");
        }
        tracing::error!(
            problems = problems.len(),
            "configuration refused as a whole; the former one stays in force"
        );
    }
}

/// Brings new configurations into force.
pub(crate) struct Reloader {
    pub(crate) origin: Origin,
    pub(crate) current: Arc<Current>,
    pub(crate) observer: Arc<Observer>,
    /// Certificates and the like, looked at as often.
    pub(crate) mounted: Vec<Arc<dyn Refresh>>,
    /// Told of every configuration that came into force.
    pub(crate) taken: Box<dyn Fn(&Config) + Send>,
}

impl Reloader {
    /// Looks at the files on a thread of its own, since reading may block, until what this gives is dropped.
    ///
    /// # Errors
    /// When the thread cannot be had.
    pub(crate) fn start(self) -> io::Result<Running> {
        let running = Running(self.origin.hangup.clone());
        let work = move || {
            let mut settling = Settling::new(self.origin.sources.file.as_ref().map_or("", |file| file.text.as_str()));
            loop {
                match self.origin.hangup.wait(POLL_EVERY) {
                    Wish::End => return,
                    wish => self.look(&mut settling, wish == Wish::Reload),
                }
            }
        };
        thread::Builder::new().name("reload".to_owned()).spawn(work)?;
        Ok(running)
    }

    fn look(&self, settling: &mut Settling, asked: bool) {
        for (i, mounted) in self.mounted.iter().enumerate() {
            let of = CONFIG << (i + 1);
            match mounted.refresh(asked) {
                None => {}
                Some(Ok(())) => {
                    self.current.count_taken(of);
                    tracing::info!("certificate or token files reloaded; new connections use them");
                }
                Some(Err(problems)) => {
                    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                    self.current.refuse(of, &problems);
                }
            }
        }
        self.look_at_file(settling, asked);
    }

    fn look_at_file(&self, settling: &mut Settling, asked: bool) {
        let Some(path) = &self.origin.path else {
            if asked {
                tracing::info!("SIGHUP: there is no configuration file (--config), so nothing to reload");
            }
            return;
        };
        let read = File::read(path).map_err(|problem| problem.to_string());
        let seen = read.as_ref().map(|file| file.text.as_str()).map_err(Clone::clone);
        if !settling.is_due(&seen, asked) && !asked {
            return;
        }
        match read.map_err(|problem| vec![problem]).and_then(|file| self.take(file)) {
            Ok(()) => {
                self.current.count_taken(CONFIG);
                tracing::info!(file = %path.display(), "configuration reloaded");
            }
            Err(problems) => self.current.refuse(CONFIG, &problems),
        }
    }

    /// Brings `file` into force, or gives every reason against it.
    fn take(&self, file: File) -> Result<(), Vec<String>> {
        let sources = Sources {
            file: Some(file),
            ..self.origin.sources.clone()
        };
        let new = Config::load(&sources).map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let old = self.current.config();
        let fixed = fixed::changes(&old, &new);
        if !fixed.is_empty() {
            return Err(fixed);
        }
        self.observer
            .reconfigure(&new)
            .map_err(|full| vec![format!("routes: {full}; restart the proxy")])?;
        if let Some(level) = self.origin.level.as_ref().filter(|_| old.log.level != new.log.level)
            && let Err(error) = level.set(&new.log.level)
        {
            // The check has read it as a filter already, so this is the log's own trouble, not the file's.
            tracing::error!(%error, "the log level stays");
        }
        (self.taken)(&new);
        self.current.set(new);
        Ok(())
    }
}

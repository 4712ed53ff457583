//! What socket, upload and response of one exchange tell each other. They are polled by one task, so relaxed atomics are enough;
//! a connection that goes back to the pool takes its marks along and [`Marks::begin`] clears them.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use crate::measure::Stamp;

const NONE: u64 = u64::MAX;

/// Whether the request body may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Gate {
    /// Yes.
    Open = 0,
    /// Not yet: the client waits for `100 Continue`, and reading its body would send it one.
    Held = 1,
    /// Never: the final head came first, so the upload is not wanted.
    Shut = 2,
}

#[derive(Debug)]
pub(super) struct Marks {
    read_at: AtomicU64,
    sent_at: AtomicU64,
    gate: AtomicU8,
    written: AtomicBool,
    upload_ended: AtomicBool,
    upload_failed: AtomicBool,
    /// The connection is idle, and a read should ask the system what became of it.
    asked: AtomicBool,
    /// HTTP/2 only: who waits for the upload's end, which another task sees.
    waker: Mutex<Option<Waker>>,
}

impl Marks {
    pub(super) fn new() -> Self {
        Self {
            read_at: AtomicU64::new(NONE),
            sent_at: AtomicU64::new(NONE),
            gate: AtomicU8::new(Gate::Open as u8),
            written: AtomicBool::new(false),
            upload_ended: AtomicBool::new(false),
            upload_failed: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// A new exchange begins; `gate` is where its upload starts.
    pub(super) fn begin(&self, gate: Gate) {
        self.read_at.store(NONE, Relaxed);
        self.sent_at.store(NONE, Relaxed);
        self.gate.store(gate as u8, Relaxed);
        self.written.store(false, Relaxed);
        self.upload_ended.store(false, Relaxed);
        self.upload_failed.store(false, Relaxed);
    }

    pub(super) fn read(&self, at: Stamp) {
        self.read_at.store(at.as_nanos(), Relaxed);
    }

    /// When bytes of this exchange were last taken from the socket.
    pub(super) fn read_at(&self) -> Option<Stamp> {
        stamp(self.read_at.load(Relaxed))
    }

    pub(super) fn wrote(&self) {
        self.written.store(true, Relaxed);
    }

    /// The socket took everything that was buffered so far: with the upload at its end, the request is sent.
    pub(super) fn flushed(&self, now: impl FnOnce() -> Stamp) {
        if self.upload_ended.load(Relaxed) && self.written.load(Relaxed) && self.sent_at.load(Relaxed) == NONE {
            self.sent(now());
        }
    }

    pub(super) fn sent(&self, at: Stamp) {
        self.sent_at.store(at.as_nanos(), Relaxed);
    }

    /// When the last request byte was handed to the socket.
    pub(super) fn sent_at(&self) -> Option<Stamp> {
        stamp(self.sent_at.load(Relaxed))
    }

    pub(super) fn upload_ended(&self) {
        self.upload_ended.store(true, Relaxed);
    }

    pub(super) fn upload_failed(&self) {
        self.upload_failed.store(true, Relaxed);
    }

    pub(super) fn has_upload_failed(&self) -> bool {
        self.upload_failed.load(Relaxed)
    }

    pub(super) fn ask(&self, asked: bool) {
        self.asked.store(asked, Relaxed);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    pub(super) fn gate(&self) -> Gate {
        match self.gate.load(Relaxed) {
            0 => Gate::Open,
            1 => Gate::Held,
            _ => Gate::Shut,
        }
    }

    /// The upstream wants the body, or the wait for its word is over.
    pub(super) fn open(&self) {
        self.gate.store(Gate::Open as u8, Relaxed);
    }

    /// The final head is here: a body still held is not sent any more.
    pub(super) fn final_head(&self) {
        if self.gate() == Gate::Held {
            self.gate.store(Gate::Shut as u8, Relaxed);
        }
    }

    pub(super) fn wake_on_sent(&self, waker: &Waker) {
        let mut kept = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.as_ref().is_some_and(|k| k.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    pub(super) fn wake(&self) {
        let kept = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = kept {
            waker.wake();
        }
    }
}

fn stamp(nanos: u64) -> Option<Stamp> {
    (nanos != NONE).then(|| Stamp::from_nanos(nanos))
}

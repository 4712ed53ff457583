//! What a client's socket tells while a reply is under way, and when: bytes sent ahead, its end, a reset. The relay does not ask a
//! socket that has nothing to say, so whatever it says must wake the connection.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use goodput_proxy::lifecycle::{Phase, UnderWay};
use goodput_proxy::observe::Observer;
use goodput_proxy::proxy::ClientStream;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::Notify;

use super::super::rig::{Client, DONE, Rig, Step, Way, both_tcp, chat, chunk, content, finish, last_chunk, on, sse_head, wait};

/// What a client sends ahead before it leaves.
const AHEAD: [&str; 3] = ["", "GET /v1/mod", "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"];

/// A token, and the next one once `gate` opens.
fn silent_until(gate: &Arc<Notify>) -> Vec<Step> {
    vec![
        Step::Body,
        sse_head(),
        chunk(content("a")),
        Step::Gate(Arc::clone(gate)),
        chunk(content("b")),
        Step::Hold,
    ]
}

#[test]
fn a_client_that_leaves_a_silent_stream_is_noticed_over_sockets_whatever_it_sent_ahead() {
    both_tcp(|way| async move {
        for ahead in AHEAD {
            for reset in [false, true] {
                let gate = Arc::new(Notify::new());
                let rig = Rig::tcp(way, "", vec![silent_until(&gate)]).await;
                let mut client = rig.tcp_client().await;
                client.send(chat()).await;
                client.read_until(&content("a")).await;
                client.send(ahead).await;
                // The chunk behind it shows that the proxy has been awake since.
                gate.notify_one();
                client.read_until(&content("b")).await;
                let _kept = leave(client, reset).await;
                rig.upstream.until(|u| !u.closed().is_empty()).await;
                let record = rig.finished(1).await.remove(0);
                assert_eq!((record.outcome, record.output_tokens), ("client_cancelled", Some(2)));
            }
        }
    });
}

#[test]
fn a_client_that_leaves_among_chunks_is_noticed_over_sockets_whatever_it_sent_ahead() {
    /// As many chunks come after the leaving, if nobody notices.
    const MORE: usize = 2000;
    both_tcp(|way| async move {
        for ahead in AHEAD {
            for reset in [false, true] {
                let mut script = vec![Step::Body, sse_head()];
                for _ in 0..MORE {
                    script.extend([chunk(content("t")), wait(10)]);
                }
                script.extend([chunk(finish()), chunk(DONE), last_chunk()]);
                let rig = Rig::tcp(way, "", vec![script]).await;
                let mut client = rig.tcp_client().await;
                client.send(chat()).await;
                client.read_until(&content("t")).await;
                client.send(ahead).await;
                client.read().await;
                let _kept = leave(client, reset).await;
                rig.upstream.until(|u| !u.closed().is_empty()).await;
                let record = rig.finished(1).await.remove(0);
                assert_eq!(record.outcome, "client_cancelled");
                let tokens = record.output_tokens.expect("a stream that was read");
                // The full server asks once a second where it does not read.
                let most = if way == Way::Relay { 100 } else { MORE as u64 / 4 };
                assert!(tokens < most, "{tokens} tokens came first");
            }
        }
    });
}

/// Ends the client's side, or resets the connection.
async fn leave(mut client: Client, reset: bool) -> Client {
    if reset {
        client.reset();
    } else {
        client.fin().await;
    }
    client
}

/// A client's socket as tokio has it, where what is ready and who is woken are told one after the other, from another thread.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Ends>>);

#[derive(Default)]
struct Ends {
    sent: VecDeque<u8>,
    ended: bool,
    ready: bool,
    reader: Option<Waker>,
    received: Vec<u8>,
}

impl Wire {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().expect("no test panics in there")
    }

    /// These bytes can be read now; nobody is woken yet.
    fn send(&self, bytes: &str) {
        let mut ends = self.ends();
        ends.sent.extend(bytes.bytes());
        ends.ready = true;
    }

    /// So can the end.
    fn end(&self) {
        let mut ends = self.ends();
        (ends.ended, ends.ready) = (true, true);
    }

    /// Whoever waits is woken.
    fn wake(&self) {
        let waker = self.ends().reader.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn has_received(&self, text: &str) -> bool {
        self.ends().received.windows(text.len()).any(|w| w == text.as_bytes())
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        let read = ends.sent.len().min(buf.remaining());
        buf.put_slice(&ends.sent.drain(..read).collect::<Vec<u8>>());
        ends.ready = ends.ended || !ends.sent.is_empty();
        if read > 0 || ends.ended {
            return Poll::Ready(Ok(()));
        }
        ends.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.ends().received.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl ClientStream for Wire {
    fn is_quiet(&self) -> bool {
        !self.ends().ready
    }
}

/// Until nobody has anything to do: time runs on only then.
async fn settled() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[test]
fn a_wake_up_that_comes_after_its_bytes_were_read_does_not_take_the_next_one_with_it() {
    on(Way::Relay, |way| async move {
        for late in [0, 1] {
            let gate = Arc::new(Notify::new());
            let rig = Rig::configured(way, "workers: 2", vec![silent_until(&gate)]);
            let wire = Wire::default();
            rig.serve(wire.clone());
            settled().await;
            wire.send(&chat());
            wire.wake();
            settled().await;
            assert!(wire.has_received(&content("a")));

            // Read with the upstream's chunk, before the wake-up that belongs to it.
            wire.send("GET /v1/mod");
            gate.notify_one();
            settled().await;
            assert!(wire.has_received(&content("b")));
            for _ in 0..late {
                wire.wake();
                settled().await;
            }

            wire.end();
            wire.wake();
            settled().await;
            assert_eq!(rig.record().outcome, "client_cancelled", "{late} late wake-ups");
        }
    });
}

/// A client's connection that notes, when the proxy closes it, how many requests are under way and how many have a record.
struct Watched {
    io: DuplexStream,
    under_way: UnderWay,
    observer: Arc<Observer>,
    at_close: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let found = (self.under_way.requests.count(), self.observer.recent(usize::MAX).len());
        self.at_close.lock().expect("no test panics in there").push(found);
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl ClientStream for Watched {}

#[test]
fn a_request_is_recorded_and_its_slot_is_free_when_its_client_sees_the_close() {
    on(Way::Relay, |way| async move {
        let closing = chat().replace("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n");
        let whole = vec![chunk(finish()), chunk(DONE), last_chunk()];
        for (request, then, stop, leave, outcome) in [
            (closing, whole, false, false, "ok"),
            (chat(), vec![Step::Reset], false, false, "upstream_reset"),
            (chat(), vec![Step::Hold], false, true, "client_cancelled"),
            (chat(), vec![Step::Hold], true, false, "drained"),
        ] {
            let script = [vec![Step::Body, sse_head(), chunk(content("a"))], then].concat();
            let rig = Rig::new(way, vec![script]);
            let (ours, io) = tokio::io::duplex(64 << 10);
            let at_close = Arc::default();
            rig.serve(Watched {
                io,
                under_way: rig.under_way.clone(),
                observer: Arc::clone(&rig.observer),
                at_close: Arc::clone(&at_close),
            });
            let mut client = Client::new(Box::new(ours));
            client.send(request).await;
            client.read_until(&content("a")).await;
            if stop {
                rig.lifecycle.advance(Phase::Stopped);
            }
            if leave {
                client.reset();
            }
            rig.under_way.connections.empty().await;
            assert_eq!(*at_close.lock().expect("no test panics in there"), [(0, 1)], "{outcome}");
            assert_eq!(rig.record().outcome, outcome);
        }
    });
}

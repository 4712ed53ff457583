use std::future::poll_fn;

use http::{HeaderMap, Method};

use super::*;
use crate::config::Config;
use crate::lifecycle::{Lifecycle, Tracker};
use crate::observe::Observer;

/// A body that is always ready: `frames` of `size` bytes, then an error if it is to fail.
struct Firehose {
    frames: usize,
    size: usize,
    fails: bool,
}

#[derive(Debug)]
struct Broken;

impl Body for Firehose {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.frames == 0 {
            return Poll::Ready(std::mem::take(&mut self.fails).then_some(Err(Broken)));
        }
        self.frames -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; self.size])))))
    }

    fn is_end_stream(&self) -> bool {
        self.frames == 0 && !self.fails
    }
}

impl Stamped for Firehose {
    fn read_at(&self) -> Stamp {
        clock::now()
    }

    fn ending(_: &Broken) -> Ending {
        Ending::UpstreamReset
    }
}

struct Fixture {
    observer: Arc<Observer>,
    client: Arc<Client>,
    requests: Tracker,
}

impl Fixture {
    fn new() -> Self {
        let observer = Observer::new(&Config::default(), Lifecycle::new().watch());
        Self {
            observer,
            client: Arc::default(),
            requests: Tracker::default(),
        }
    }

    fn body(&self, frames: usize, size: usize, fails: bool) -> MeteredBody<Firehose> {
        let headers = HeaderMap::new();
        let mut exchange = self
            .observer
            .begin(clock::now(), &Method::GET, "/v1/chat/completions", &headers);
        exchange.head(clock::now(), http::StatusCode::OK, &headers);
        let guards = Guards::new(&self.client, Some(self.requests.enter()));
        MeteredBody::new(Firehose { frames, size, fails }, exchange, guards, Arc::default())
    }

    fn records(&self) -> usize {
        self.observer.recent(10).len()
    }
}

/// The most frames that one poll of a task gets in a row.
async fn longest_run(mut body: MeteredBody<Firehose>) -> usize {
    let mut longest = 0;
    let mut ended = false;
    while !ended {
        let run = poll_fn(|cx| {
            let mut run = 0;
            loop {
                match Pin::new(&mut body).poll_frame(cx) {
                    Poll::Ready(Some(_)) => run += 1,
                    Poll::Ready(None) => {
                        ended = true;
                        return Poll::Ready(run);
                    }
                    Poll::Pending if run == 0 => return Poll::Pending,
                    Poll::Pending => return Poll::Ready(run),
                }
            }
        })
        .await;
        longest = longest.max(run);
        tokio::task::yield_now().await;
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn a_firehose_lets_others_run_by_frames_and_by_bytes() {
    let fixture = Fixture::new();
    let small = tokio::spawn(longest_run(fixture.body(1000, 100, false))).await.unwrap();
    assert!((100..=128).contains(&small), "{small}");
    let large = tokio::spawn(longest_run(fixture.body(1000, 64 * 1024, false))).await.unwrap();
    assert!((20..=26).contains(&large), "{large}");
}

#[tokio::test(start_paused = true)]
async fn the_record_exists_when_the_last_frame_is_handed_on() {
    let fixture = Fixture::new();
    let mut body = fixture.body(2, 10, false);
    poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
    assert_eq!(fixture.records(), 0);
    poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
    assert_eq!(fixture.records(), 1);
    assert!(body.is_end_stream());
    assert_eq!(fixture.requests.count(), 1, "under way until hyper lets go of it");
    drop(body);
    assert_eq!((fixture.records(), fixture.requests.count()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_has_ended_at_construction_and_one_that_is_dropped_leave_one_record_each() {
    let fixture = Fixture::new();
    let ended = fixture.body(0, 0, false);
    assert_eq!(fixture.records(), 1);
    drop(ended);
    drop(fixture.body(5, 10, false));
    assert_eq!(fixture.records(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_error_waits_until_everything_before_it_is_written() {
    let fixture = Fixture::new();
    let mut body = fixture.body(1, 10, true);
    assert!(poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().is_ok());
    let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx).is_pending())).await;
    assert!(polled, "hyper has not written the frame");
    assert_eq!(fixture.records(), 1, "recorded all the same");
    assert!(!body.is_end_stream());
    fixture.client.written();
    assert!(poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().is_err());
}

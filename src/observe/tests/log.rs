use std::io;
use std::sync::Mutex;

use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// Collects log lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn logged(run: impl FnOnce()) -> String {
    let lines = Lines::default();
    // With a single dispatcher alive, tracing asks the default of whichever thread meets a call site first, and caches a "never"
    // from the test threads that have none. A second one makes it ask all of them.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::fmt().json().with_writer(lines.clone()).finish();
    tracing::subscriber::with_default(subscriber, run);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn one_event_per_request_with_numbers_and_no_one_s_text() {
    let secret = "SECRET";
    let text = logged(|| {
        let proxy = Proxy::new(vec![slo(ttft(50))]);
        let body = format!(r#"{{"model":"m","stream":true,"messages":[{{"role":"user","content":"{secret}"}}]}}"#);
        let mut x = proxy.post(CHAT, &[("authorization", secret)], &body);
        sse(&mut x, 5);
        let reply = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{secret}\"}}}}]}}\n\n");
        x.chunk(ms(100), reply.as_bytes());
        done(&mut x, 100);
        x.finish(ms(120), Ending::Complete);
        assert!(!proxy.observer.requests().contains(secret));
    });
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!text.contains(secret));
    let event: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(event["target"], ACCESS_LOG);
    let f = &event["fields"];
    assert_eq!(
        (&f["message"], &f["route"], &f["model"]),
        (&"request".into(), &"chat".into(), &"m".into())
    );
    assert_eq!(
        (&f["outcome"], &f["verdict"], &f["broken"], &f["slo"]),
        (&"ok".into(), &"bad".into(), &"ttft".into(), &"fast".into())
    );
    assert_eq!(
        (&f["status"], &f["ttft_ms"], &f["e2e_ms"]),
        (&200.into(), &100.0.into(), &120.0.into())
    );
    assert_eq!(f.get("tpot_ms"), None, "no sample, no field");
}

#[test]
fn recent_requests_are_a_json_list_newest_first() {
    let proxy = Proxy::with(|config| config.requests_kept = 2);
    for status in [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS] {
        let mut x = proxy.chat();
        head(&mut x, 5, status, "application/json");
        x.finish(ms(6), Ending::Complete);
    }
    let list: serde_json::Value = serde_json::from_str(&proxy.observer.requests()).unwrap();
    let statuses: Vec<_> = list.as_array().unwrap().iter().map(|r| r["status"].clone()).collect();
    assert_eq!(statuses, [429, 404]);
    assert_eq!(list[0]["outcome"], "overloaded");
}

//! What is under way: up and down once a request, whatever way it ends.

use goodput_proxy::measure::Bound;

use super::super::rig::{Client, DONE, Rig, both, chat, chunk, content, finish, last_chunk, sse_head, usage, wait};
use super::{pass, scraped, sse, value};

fn in_flight(rig: &Rig) -> u64 {
    rig.snapshot().series.iter().map(|s| s.in_flight).sum()
}

/// How many records have this outcome.
fn ended(rig: &Rig, outcome: &str) -> usize {
    rig.records().iter().filter(|r| r.outcome == outcome).count()
}

#[test]
fn in_flight_is_0_again_wherever_200_clients_left() {
    // P102
    both(|way| async move {
        let script = vec![
            wait(100),
            sse_head(),
            wait(100),
            chunk(content("x")),
            wait(100),
            chunk(finish()),
            chunk(DONE),
            last_chunk(),
        ];
        let rig = Rig::new(way, vec![script]);
        let request = chat();
        let mut stages: Vec<Vec<Client>> = Vec::new();
        for sent in [
            0,
            20,
            request.len() - 10,
            request.len(),
            request.len(),
            request.len(),
            request.len(),
            request.len(),
        ] {
            let mut clients = Vec::new();
            for _ in 0..25 {
                let mut client = rig.client();
                client.send(&request[..sent]).await;
                clients.push(client);
            }
            stages.push(clients);
        }
        pass(50).await;
        assert_eq!(in_flight(&rig), 150, "a connection and half a head are no request");

        let mut last = stages.split_off(6);
        let (after_token, after_head) = (stages.pop(), stages.pop());
        drop(stages);
        pass(1).await;
        assert_eq!(
            (in_flight(&rig), ended(&rig, "client_cancelled")),
            (100, 50),
            "amid the upload, and waiting"
        );
        pass(100).await;
        drop(after_head);
        pass(1).await;
        assert_eq!((in_flight(&rig), ended(&rig, "client_cancelled")), (75, 75));
        pass(100).await;
        drop(after_token);
        pass(1).await;
        assert_eq!((in_flight(&rig), ended(&rig, "client_cancelled")), (50, 100));

        for client in &mut last[0] {
            assert!(client.reply().await.complete);
        }
        // These never read: they leave with everything in their pipe.
        drop(last);
        rig.under_way.connections.empty().await;
        assert_eq!((in_flight(&rig), ended(&rig, "ok"), rig.records().len()), (0, 50, 150));
        assert_eq!((rig.under_way.requests.count(), rig.under_way.connections.count()), (0, 0));
        let open = value(&scraped(&rig).await, "goodput_proxy_open_connections", &[]);
        assert_eq!(open, Some(0.0));
    });
}

#[test]
fn several_end_signals_and_a_reset_are_one_end() {
    // P103
    both(|way| async move {
        let steps = [chunk(content("x")), chunk(finish()), chunk(usage(3, 1)), chunk(DONE)];
        let rig = Rig::new(way, vec![sse(steps), vec![wait(1000)]]);
        let mut client = rig.client();
        client.send(chat()).await;
        client.read_until("[DONE]").await;
        client.reset();
        rig.under_way.connections.empty().await;
        assert_eq!(
            (in_flight(&rig), rig.under_way.requests.count(), rig.record().outcome),
            (0, 0, "ok")
        );
        let mut client = rig.client();
        client.send(chat()).await;
        pass(10).await;
        assert_eq!((in_flight(&rig), rig.under_way.requests.count()), (1, 1), "not one too few");
    });
}

#[test]
fn a_request_counts_in_flight_until_the_last_byte_has_been_taken() {
    both(|way| async move {
        let rig = Rig::new(
            way,
            vec![vec![
                sse_head(),
                wait(100),
                chunk(content("x")),
                chunk(DONE),
                wait(100),
                last_chunk(),
            ]],
        );
        let mut client = rig.client();
        client.send(chat()).await;
        pass(150).await;
        assert_eq!(
            rig.series("chat", "m").in_flight,
            1,
            "the terminal signal is not the end of the body"
        );
        client.reply().await;
        assert_eq!(in_flight(&rig), 0);
    });
}

#[test]
fn a_stream_is_stalled_while_it_is_silent_past_its_bound() {
    both(|way| async move {
        let script = || {
            sse([
                chunk(content("x")),
                wait(30_000),
                chunk(content("y")),
                wait(5000),
                chunk(DONE),
            ])
        };
        for (slo, stalled_after) in [("", 10_000), ("slo: stall=2s", 2000)] {
            let rig = Rig::configured(way, slo, vec![script()]);
            let mut client = rig.client();
            client.send(chat()).await;
            let stalled = || rig.series("chat", "m").stalled;
            pass(stalled_after).await;
            assert_eq!(stalled(), 0, "exactly the bound is within it");
            pass(1).await;
            assert_eq!(stalled(), 1);
            pass(30_000 - stalled_after).await;
            assert_eq!(stalled(), 0, "it goes on");
            client.reply().await;
            assert_eq!(stalled(), 0);
            assert_eq!(rig.record().stall_ms, Some(30_000.0));
        }
    });
}

#[test]
fn a_request_is_overdue_for_each_bound_it_is_past() {
    both(|way| async move {
        let script = vec![
            wait(500),
            sse_head(),
            chunk(content("x")),
            wait(1500),
            chunk(DONE),
            last_chunk(),
        ];
        let rig = Rig::configured(way, "slo: ttft=200ms,tpot=10ms,stall=700ms,e2e=1s", vec![script]);
        let mut client = rig.client();
        client.send(chat()).await;
        // Before the head nothing has confirmed the model.
        let overdue = |model| {
            let gauges = rig.series("chat", model).overdue;
            [Bound::Ttft, Bound::Tpot, Bound::Stall, Bound::E2e].map(|b| gauges.iter().find(|(of, _)| *of == b).map(|(_, n)| *n))
        };
        pass(200).await;
        assert_eq!(overdue("other"), [Some(0); 4]);
        pass(1).await;
        assert_eq!(overdue("other"), [Some(1), Some(0), Some(0), Some(0)]);
        pass(549).await;
        assert_eq!(
            overdue("m"),
            [Some(1), Some(0), Some(0), Some(0)],
            "the first token came, but late"
        );
        pass(300).await;
        assert_eq!(
            overdue("m"),
            [Some(1), Some(0), Some(0), Some(1)],
            "550 ms silent, 1050 ms under way"
        );
        pass(200).await;
        assert_eq!(overdue("m"), [Some(1), Some(0), Some(1), Some(1)]);
        client.reply().await;
        assert_eq!((overdue("m"), overdue("other")), ([Some(0); 4], [Some(0); 4]));
        assert_eq!(rig.record().broken, ["ttft", "e2e"], "one token has no gap");
    });
}

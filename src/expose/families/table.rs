//! The rows. Help texts are read by whoever meets the number first on a dashboard: meaning, boundary, how it misleads.

use super::{FamilyDef, Kind, Scope};

const fn def(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> FamilyDef {
    FamilyDef {
        name,
        kind,
        unit,
        scope: Scope::Series,
        labels,
        help,
    }
}

const fn counter(name: &'static str, unit: &'static str, labels: &'static [&'static str], help: &'static str) -> FamilyDef {
    def(name, Kind::Counter, unit, labels, help)
}

const fn gauge(name: &'static str, unit: &'static str, labels: &'static [&'static str], help: &'static str) -> FamilyDef {
    def(name, Kind::Gauge, unit, labels, help)
}

const fn histogram(name: &'static str, unit: &'static str, labels: &'static [&'static str], help: &'static str) -> FamilyDef {
    def(name, Kind::Histogram, unit, labels, help)
}

/// The same row, of the process instead of a traffic series.
const fn process(row: FamilyDef) -> FamilyDef {
    FamilyDef {
        scope: Scope::Process,
        ..row
    }
}

/// Every family, in the order of exposition.
pub static FAMILIES: &[FamilyDef] = &[
    // Requests and verdicts.
    counter(
        "goodput_requests_total",
        "",
        &["api", "streaming", "outcome"],
        "Finished requests; outcomes are a closed set, decided once at the end and sum to all requests accepted (those still running \
         are in goodput_in_flight).",
    ),
    counter(
        "goodput_slo_evaluated_total",
        "",
        &["slo"],
        "Requests judged by this SLO: good plus bad. Moves once, when the request has ended: a backend that hangs shows in \
         goodput_ratio and goodput_overdue first.",
    ),
    counter(
        "goodput_slo_good_total",
        "",
        &["slo"],
        "Judged requests that met every bound of the SLO and ended ok. Goodput over any time and any number of pods is the increase \
         of this over the increase of goodput_slo_evaluated_total.",
    ),
    counter(
        "goodput_slo_bad_total",
        "",
        &["slo"],
        "Judged requests that broke a bound or ended badly: evaluated minus good.",
    ),
    counter(
        "goodput_slo_excluded_total",
        "",
        &["slo", "reason"],
        "Requests this SLO did not judge, by reason. Evaluated plus excluded is every request the SLO matched.",
    ),
    counter(
        "goodput_slo_violations_total",
        "",
        &["slo", "bound"],
        "Judged requests that broke this bound. One request may break several, so bounds do not add up to bad.",
    ),
    counter(
        "goodput_slo_sole_violations_total",
        "",
        &["slo", "bound"],
        "Judged requests that ended ok and broke this bound alone: what relaxing only this bound would win.",
    ),
    // Tokens.
    counter(
        "goodput_good_tokens_total",
        "tokens",
        &[],
        "Output tokens of good requests, added when each request ends.",
    ),
    counter(
        "goodput_output_tokens_total",
        "tokens",
        &["token_source"],
        "Output tokens, counted while streams run and corrected upwards by the usage at their end. token_source=\"events\" is a \
         lower bound: the server sent no usage and one event may hold several tokens.",
    ),
    counter(
        "goodput_prompt_tokens_total",
        "tokens",
        &[],
        "Prompt tokens as the server reported them; requests without usage add nothing.",
    ),
    // Latencies.
    histogram(
        "goodput_ttft_seconds",
        "seconds",
        &[],
        "Time to first token: request head read to the first event that carries a token, on any channel (reasoning too); role-only \
         and empty events do not count. Streams only. Measured at the pod: connect and TLS between client and proxy are outside.",
    ),
    histogram(
        "goodput_ttfb_seconds",
        "seconds",
        &[],
        "Time to first byte of the response body, which may hold no token yet. Measured at the pod: connect and TLS between client \
         and proxy are outside.",
    ),
    histogram(
        "goodput_visible_ttft_seconds",
        "seconds",
        &[],
        "Time to the first token that is not reasoning. Streams only. Measured at the pod: connect and TLS between client and proxy \
         are outside.",
    ),
    histogram(
        "goodput_tpot_seconds",
        "seconds",
        &[],
        "Time per output token of one request: last minus first token time over the tokens after the first event. One sample a \
         request, so short and long answers weigh the same. Streams only, measured at the pod.",
    ),
    histogram(
        "goodput_itl_seconds",
        "seconds",
        &[],
        "Inter-token latency, one sample a token: an event of m tokens gives m samples of gap/m. Long answers weigh more; servers \
         that batch tokens into events look smoother here than in goodput_inter_chunk_seconds. Streams only, measured at the pod.",
    ),
    histogram(
        "goodput_inter_chunk_seconds",
        "seconds",
        &[],
        "Gap between consecutive token-bearing events of one choice, whatever number of tokens each holds. Events that arrive in \
         one read have a gap of 0. Streams only, measured at the pod.",
    ),
    histogram(
        "goodput_stall_seconds",
        "seconds",
        &[],
        "The largest gap between token-bearing events of a request, one sample a request: what a reader feels as a freeze. A slow \
         client can cause it too. Streams only, measured at the pod.",
    ),
    histogram(
        "goodput_e2e_seconds",
        "seconds",
        &[],
        "End to end: request head read to response body ended, every accepted request, also failed ones. Grows with the length of \
         the answer: compare goodput_e2e_by_output_seconds. Measured at the pod: connect and TLS between client and proxy are outside.",
    ),
    histogram(
        "goodput_upload_seconds",
        "seconds",
        &[],
        "Request head read to the last request body byte handed to the upstream: a slow sender's share of TTFT.",
    ),
    histogram(
        "goodput_e2e_by_output_seconds",
        "seconds",
        &["output_tokens"],
        "End to end by the length of the answer, so that a shift in lengths is not mistaken for a change in speed. Measured at the pod.",
    ),
    histogram(
        "goodput_prompt_tokens",
        "tokens",
        &[],
        "Prompt tokens of a request as the server reported them; requests without usage give no sample.",
    ),
    histogram(
        "goodput_output_tokens",
        "tokens",
        &[],
        "Output tokens of a request: the server's usage, else its token-bearing events.",
    ),
    // Rolling views.
    gauge(
        "goodput_ratio",
        "",
        &["slo", "window"],
        "Good share of the requests judged within the window, with those in flight and already past a bound counted as bad. Absent \
         for an empty window. Do not average over pods: sum the counters instead.",
    ),
    gauge(
        "goodput_rate",
        "",
        &["slo", "window"],
        "Good requests per second over the window. Absent for an empty window. May be summed over pods.",
    ),
    gauge(
        "goodput_good_tokens_rate",
        "",
        &["slo", "window"],
        "Output tokens of good requests per second over the window, counted when each request ends. Absent for an empty window. May \
         be summed over pods.",
    ),
    gauge(
        "goodput_rolling_seconds",
        "seconds",
        &["measure", "quantile", "window"],
        "Quantile (nearest rank) of a measure over the window, for one pod. Absent for an empty window. Quantiles of several pods \
         must not be averaged: use the histograms for a fleet. Measured at the pod.",
    ),
    gauge("goodput_in_flight", "", &[], "Requests accepted and not finished."),
    gauge(
        "goodput_overdue",
        "",
        &["bound"],
        "Requests in flight that are already past this bound; each lowers goodput_ratio now and moves the counters when it ends.",
    ),
    gauge(
        "goodput_stalled",
        "",
        &[],
        "Streams in flight that have been silent for longer than the tightest stall bound of their route's SLOs, or 10 s where there is \
         none.",
    ),
    // Reference lines.
    process(gauge(
        "goodput_slo_target_seconds",
        "seconds",
        &["route", "slo", "bound"],
        "A bound of an SLO as configured, for reference lines. Bounds that requests bring in headers are not shown.",
    )),
    process(gauge(
        "goodput_slo_objective_ratio",
        "",
        &["route", "slo"],
        "The share of judged requests that should be good, as configured.",
    )),
    // The proxy itself.
    process(histogram(
        "goodput_overhead_seconds",
        "seconds",
        &["stage"],
        "Time the proxy itself adds: stage=\"request\" from request head read to request head written, stage=\"chunk\" from a read of \
         the upstream to the hand-over towards the client. Waiting for either side is not in it.",
    )),
    process(counter(
        "goodput_tap_degraded_total",
        "",
        &["reason"],
        "Replies that could not be read (fully) for measuring, by reason; their bytes went through all the same.",
    )),
    process(counter(
        "goodput_proxy_label_overflow_total",
        "",
        &["label"],
        "Times a model or tenant was counted as \"other\": its cap was reached, or no upstream ever answered that name with success. A \
         steady rise from one means that names should be allow-listed, or that somebody invents them.",
    )),
    process(gauge(
        "goodput_proxy_ready",
        "",
        &[],
        "1 while the readiness probe answers 200; 0 while starting or draining.",
    )),
    process(gauge(
        "goodput_proxy_open_connections",
        "",
        &[],
        "Client connections open on the traffic port.",
    )),
    process(counter(
        "goodput_proxy_connections_total",
        "",
        &[],
        "Client connections accepted on the traffic port.",
    )),
    process(counter(
        "goodput_proxy_accept_errors_total",
        "",
        &[],
        "Failed accepts on the traffic port; a steady rate usually means that file descriptors ran out.",
    )),
    process(counter(
        "goodput_proxy_tls_handshake_errors_total",
        "",
        &[],
        "TLS handshakes with clients that failed or took too long; a port scanner makes some, a steady rate means clients that do not \
         trust the certificate, or show none where tls.client_ca asks for one.",
    )),
    process(counter(
        "goodput_proxy_header_timeouts_total",
        "",
        &[],
        "Connections closed because a request head did not arrive in time.",
    )),
    process(counter(
        "goodput_proxy_refused_heads_total",
        "",
        &["reason"],
        "Request heads refused before they became requests: not valid HTTP or ambiguous in their framing (malformed), or over a \
         configured limit (too_large).",
    )),
    process(counter(
        "goodput_proxy_informational_dropped_total",
        "",
        &[],
        "Informational replies (1xx) of the upstream that could not be relayed: the client speaks HTTP/1.0, or there were too many.",
    )),
    process(counter(
        "goodput_proxy_upgrades_total",
        "",
        &[],
        "Connections turned into tunnels by an upgrade; what flows in them is not measured.",
    )),
    process(counter(
        "goodput_proxy_upstream_attempts_total",
        "",
        &[],
        "Requests put on an upstream connection; above the number of requests where a connection handed one back unsent and it was \
         sent again.",
    )),
    process(counter(
        "goodput_proxy_upstream_connects_total",
        "",
        &[],
        "Connections opened to the upstream; near to the rate of attempts means that connections are not being reused.",
    )),
    process(counter(
        "goodput_proxy_upstream_connect_errors_total",
        "",
        &[],
        "Connections to the upstream that could not be opened, name resolution included.",
    )),
    process(counter(
        "goodput_proxy_config_reloads_total",
        "",
        &["result"],
        "Reloads (SIGHUP, or a change of the configuration, certificate, key or token file) that came into force (success) or were \
         refused as a whole (failure).",
    )),
    process(gauge(
        "goodput_proxy_config_last_reload_successful",
        "",
        &[],
        "1 while what runs is what the files say; 0 when the last change of one was refused and the former stays: the log names every \
         problem.",
    )),
    process(gauge(
        "goodput_build_info",
        "",
        &["version", "profile"],
        "Always 1: the version that runs and the definition profile its numbers follow; numbers of different profiles must not be compared.",
    )),
    process(counter(
        "process_cpu_seconds_total",
        "seconds",
        &[],
        "User and system CPU time of the proxy process.",
    )),
    process(gauge(
        "process_resident_memory_bytes",
        "bytes",
        &[],
        "Resident memory of the proxy process.",
    )),
    process(gauge(
        "process_open_fds",
        "",
        &[],
        "Open file descriptors; every client and every upstream connection holds one.",
    )),
    process(gauge("process_max_fds", "", &[], "Limit of open file descriptors.")),
    process(gauge("process_threads", "", &[], "Threads of the proxy process.")),
    process(gauge(
        "process_start_time_seconds",
        "seconds",
        &[],
        "When the process started, seconds since the epoch.",
    )),
];

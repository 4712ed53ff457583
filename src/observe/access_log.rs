//! One structured log event per finished request.

use super::Summary;

/// The target to filter by (`goodput_proxy::access=off`).
pub const TARGET: &str = "goodput_proxy::access";

/// Logs `summary`. A field without a value is left out.
pub(super) fn log(summary: &Summary) {
    tracing::info!(
        target: TARGET,
        route = &*summary.route,
        model = &*summary.model,
        tenant = summary.tenant.as_deref(),
        api = summary.api,
        streaming = summary.streaming,
        status = summary.status,
        outcome = summary.outcome,
        ttft_ms = summary.ttft_ms,
        tpot_ms = summary.tpot_ms,
        stall_ms = summary.stall_ms,
        e2e_ms = summary.e2e_ms,
        upload_ms = summary.upload_ms,
        output_tokens = summary.output_tokens,
        token_source = summary.token_source,
        prompt_tokens = summary.prompt_tokens,
        slo = summary.slo.as_deref(),
        verdict = summary.verdict,
        excluded = summary.excluded,
        broken = (!summary.broken.is_empty()).then(|| summary.broken.join(",")),
        trace_id = summary.trace_id.as_deref(),
        "request"
    );
}

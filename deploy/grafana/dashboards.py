#!/usr/bin/env python3
"""Writes dashboards/*.json: classic dashboards for Grafana 10 and later. A check compares the files with what this writes.

A panel is title, what it says, unit and queries; place, ids and defaults are worked out here. Ratios of a fleet come from the recording
rules (deploy/prometheus/rules); what no rule records is asked of the raw counters and histograms.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
TAG = "goodput-proxy"

RULES = 'namespace=~"$namespace", model=~"$model"'
SLO = RULES + ', slo=~"$slo"'
TRAFFIC = 'namespace=~"$namespace", route=~"$route", model=~"$model"'
PROXY = 'namespace=~"$namespace"'
POD = 'namespace=~"$namespace", instance="$instance"'

BOUNDARY = "Measured at the pod: connect and TLS between client and proxy are outside."


def query(name: str, label: str, expression: str, *, everything: bool = True) -> dict:
    variable = {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": expression, "refId": "Variables"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "skipUrlSync": False,
        "regex": "",
        "options": [],
        "multi": everything,
        "includeAll": everything,
    }
    if everything:
        variable |= {"allValue": ".*", "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}
    else:
        variable |= {"current": {"selected": False, "text": "", "value": ""}}
    return variable


def choice(name: str, label: str, values: list[str], chosen: str) -> dict:
    options = [{"selected": v == chosen, "text": v, "value": v} for v in values]
    return {
        "name": name,
        "label": label,
        "type": "custom",
        "query": ",".join(values),
        "options": options,
        "current": {"selected": True, "text": chosen, "value": chosen},
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "skipUrlSync": False,
    }


VARIABLES = {
    "datasource": {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "regex": "",
        "refresh": 1,
        "options": [],
        "current": {"selected": False, "text": "default", "value": "default"},
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "skipUrlSync": False,
    },
    "runbook": {
        "name": "runbook",
        "label": "Runbook",
        "type": "textbox",
        "description": "Where you publish deploy/prometheus/runbook.md",
        "query": "https://runbooks.example.com/goodput-proxy/runbook.md",
        "options": [],
        "current": {
            "selected": False,
            "text": "https://runbooks.example.com/goodput-proxy/runbook.md",
            "value": "https://runbooks.example.com/goodput-proxy/runbook.md",
        },
        "hide": 2,
        "skipUrlSync": False,
    },
    "namespace": query("namespace", "Namespace", "label_values(goodput_build_info, namespace)"),
    "model": query("model", "Model", 'label_values(goodput_requests_total{namespace=~"$namespace"}, model)'),
    "route": query("route", "Route", 'label_values(goodput_requests_total{namespace=~"$namespace"}, route)'),
    "slo": query("slo", "SLO", 'label_values(goodput_slo_evaluated_total{namespace=~"$namespace"}, slo)'),
    "instance": query("instance", "Pod", 'label_values(goodput_build_info{namespace=~"$namespace"}, instance)', everything=False),
    "period": choice("period", "Budget period", ["1d", "7d", "28d", "30d"], "30d"),
    "window": choice("window", "Rolling window", ["1m", "5m", "30m"], "5m"),
}


def link(title: str, kind: str, **more) -> dict:
    plain = {"icon": "external link", "url": "", "tooltip": "", "tags": [], "asDropdown": False, "includeVars": False, "keepTime": False,
             "targetBlank": False}
    return {"title": title, "type": kind} | plain | more


RED, ORANGE, GREEN = "red", "orange", "green"


def steps(*pairs) -> dict:
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in pairs]}


PLAIN = steps((GREEN, None))


def panel(title: str, says: str, unit: str, *queries, kind: str = "timeseries", width: int = 12, height: int = 8, **more) -> dict:
    """One panel; a query is (expression, legend)."""
    targets = [
        {
            "refId": chr(ord("A") + n),
            "datasource": DATASOURCE,
            "expr": expr,
            "legendFormat": legend,
            "editorMode": "code",
            "range": kind not in ("stat", "bargauge", "table"),
            "instant": kind in ("stat", "bargauge", "table"),
        }
        for n, (expr, legend) in enumerate(queries)
    ]
    defaults = {"unit": unit, "thresholds": more.get("thresholds", PLAIN), "mappings": []}
    for key in ("min", "max", "decimals", "noValue"):
        if key in more:
            defaults[key] = more[key]
    result = {
        "title": title,
        "description": says,
        "type": kind,
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": more.get("overrides", [])},
        "size": (width, height),
    }
    if "runbook" in more:
        result["links"] = [link("Runbook", "link", url="${runbook}#" + more["runbook"], targetBlank=True)]
    if kind == "timeseries":
        custom = {"lineWidth": 1, "fillOpacity": more.get("fill", 0), "showPoints": "never", "spanNulls": False}
        if more.get("stack"):
            custom |= {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 30}
        if "thresholds" in more:
            custom["thresholdsStyle"] = {"mode": "line"}
        if more.get("log"):
            custom["scaleDistribution"] = {"type": "log", "log": 10}
        defaults["custom"] = custom
        defaults["color"] = {"mode": "palette-classic"}
        result["options"] = {
            "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    elif kind == "stat":
        result["options"] = {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "textMode": more.get("text", "auto"),
            "orientation": "auto",
            "justifyMode": "auto",
        }
        defaults["color"] = {"mode": "thresholds"}
    elif kind == "bargauge":
        result["options"] = {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "displayMode": "basic",
            "orientation": "horizontal",
            "showUnfilled": True,
        }
        defaults["color"] = {"mode": "thresholds"}
    elif kind == "heatmap":
        targets[0]["format"] = "heatmap"
        result["options"] = {
            "calculate": False,
            "cellGap": 0,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "scale": "exponential", "exponent": 0.5},
            "yAxis": {"unit": unit, "axisPlacement": "left"},
            "legend": {"show": True},
            "tooltip": {"show": True, "yHistogram": True},
            "filterValues": {"le": 1e-9},
            "rowsFrame": {"layout": "auto"},
        }
    return result


def dashed(name_starts_with: str) -> dict:
    """Reference lines: dashed, without a fill, out of the stack."""
    return {
        "matcher": {"id": "byRegexp", "options": f"^{name_starts_with}.*"},
        "properties": [
            {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}},
            {"id": "custom.fillOpacity", "value": 0},
            {"id": "custom.stacking", "value": {"mode": "none", "group": "B"}},
            {"id": "color", "value": {"mode": "fixed", "fixedColor": RED}},
        ],
    }


def dashboard(uid: str, title: str, says: str, variables: list[str], rows: list[tuple[str, list[dict]]]) -> dict:
    panels, ids, y = [], 0, 0
    for heading, content in rows:
        ids += 1
        panels.append({"id": ids, "type": "row", "title": heading, "collapsed": False, "panels": [], "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}})
        y, x, tallest = y + 1, 0, 0
        for one in content:
            width, height = one.pop("size")
            if x + width > 24:
                x, y, tallest = 0, y + tallest, 0
            ids += 1
            panels.append({"id": ids, **one, "gridPos": {"h": height, "w": width, "x": x, "y": y}})
            x, tallest = x + width, max(tallest, height)
        y += tallest
    return {
        "uid": uid,
        "title": title,
        "description": says,
        "tags": [TAG],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "timezone": "browser",
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "weekStart": "",
        "annotations": {"list": []},
        "links": [
            link("goodput-proxy", "dashboards", tags=[TAG], asDropdown=True, includeVars=True, keepTime=True),
            link("Runbook", "link", url="${runbook}", icon="doc", targetBlank=True, tooltip="What to do about each alert"),
        ],
        "templating": {"list": [VARIABLES[name] for name in ["datasource", "runbook", *variables]]},
        "panels": panels,
    }


def percentiles(measure: str, labels: str = TRAFFIC, by: str = "") -> list[tuple[str, str]]:
    inner = f"sum by (le{by}) (rate(goodput_{measure}_seconds_bucket{{{labels}}}[$__rate_interval]))"
    return [(f"histogram_quantile({q}, {inner})", f"P{int(float(q) * 100)}") for q in ("0.5", "0.9", "0.99")]


def target(bound: str) -> tuple[str, str]:
    expr = f'max by (slo, route) (goodput_slo_target_seconds{{namespace=~"$namespace", route=~"$route", slo=~"$slo", bound="{bound}"}})'
    return (expr, "SLO {{route}}/{{slo}}")


def latency(title: str, measure: str, says: str, bound: str | None = None) -> dict:
    lines = percentiles(measure) + ([target(bound)] if bound else [])
    return panel(title, f"{says} Percentiles of all requests of the chosen series together, within the width of a bucket. {BOUNDARY}",
                 "s", *lines, overrides=[dashed("SLO")] if bound else [], runbook="goodputbelow99")


def heatmap(title: str, measure: str, says: str) -> dict:
    return panel(title, f"{says} Darker: more samples in that bucket. {BOUNDARY}", "s",
                 (f"sum by (le) (increase(goodput_{measure}_seconds_bucket{{{TRAFFIC}}}[$__rate_interval]))", "{{le}}"), kind="heatmap")


GOOD_STEPS = steps((RED, None), (ORANGE, 0.98), (GREEN, 0.99))


def fleet() -> dict:
    budget = (
        f"1 - (1 - sum_over_time(goodput:slo_good:rate5m{{{SLO}}}[$period])"
        f" / (sum_over_time(goodput:slo_evaluated:rate5m{{{SLO}}}[$period]) > 0))"
        " / on (namespace, slo) group_left () (1 - goodput:slo_objective:max)"
    )
    return dashboard(
        "goodput-fleet", "Goodput / Fleet",
        "Goodput of a fleet by model and SLO: sums of counters over pods, never averages of ratios. Needs the recording rules.",
        ["namespace", "model", "slo", "period"],
        [
            ("Now", [
                panel("Goodput", "Good share of the judged requests of the last 5 minutes: every bound of the SLO met, and ended ok.",
                      "percentunit", (f"goodput:ratio:rate5m{{{SLO}}}", "{{namespace}} {{model}} {{slo}}"),
                      kind="stat", width=10, height=6, thresholds=GOOD_STEPS, decimals=2, runbook="goodputbelow99"),
                panel("Error budget left", "Of the bad requests that the objective allows over the period, the share not yet used, at the "
                      "traffic seen; below 0 the objective is missed. Needs Prometheus to keep the period.",
                      "percentunit", (budget, "{{namespace}} {{model}} {{slo}}"), kind="bargauge", width=8, height=6, min=-1, max=1,
                      thresholds=steps((RED, None), (ORANGE, 0), (GREEN, 0.25)), decimals=1, runbook="goodputbudgetburn"),
                panel("Alerts firing", "Alerts of these rules that fire now.", "none",
                      ('count(ALERTS{alertname=~"Goodput.*", alertstate="firing"}) or vector(0)', "firing"), kind="stat", width=3, height=6,
                      thresholds=steps((GREEN, None), (RED, 1)), runbook="alerts"),
                panel("Proxies", "Proxies that Prometheus scrapes.", "none",
                      (f"count(goodput_build_info{{{PROXY}}})", "scraped"), kind="stat", width=3, height=6, runbook="goodputabsent"),
            ]),
            ("Goodput", [
                panel("Goodput over 5 minutes", "Good share of the judged requests. Gaps: no judged request. The dashed line is the objective.",
                      "percentunit", (f"goodput:ratio:rate5m{{{SLO}}}", "{{namespace}} {{model}} {{slo}}"),
                      ('goodput:slo_objective:max{namespace=~"$namespace", slo=~"$slo"}', "Objective {{slo}}"), max=1,
                      overrides=[dashed("Objective")], runbook="goodputbelow99"),
                panel("Error budget burn", "How many times faster than the objective allows bad requests come; at 1 the budget lasts exactly "
                      "its period. Pages at 14.4 over 1h and 6 over 6h, tickets at 3 over 1d and 1 over 3d.", "suffix:x",
                      (f"goodput:burn:rate1h{{{SLO}}}", "1h {{model}} {{slo}}"), (f"goodput:burn:rate6h{{{SLO}}}", "6h {{model}} {{slo}}"),
                      (f"goodput:burn:rate1d{{{SLO}}}", "1d {{model}} {{slo}}"),
                      thresholds=steps((GREEN, None), (ORANGE, 6), (RED, 14.4)), runbook="goodputbudgetburn"),
                panel("Judged requests", "Good and bad requests a second.", "reqps",
                      (f"goodput:slo_good:rate5m{{{SLO}}}", "good {{model}} {{slo}}"),
                      (f"goodput:slo_evaluated:rate5m{{{SLO}}} - goodput:slo_good:rate5m{{{SLO}}}", "bad {{model}} {{slo}}"), stack=True),
                panel("Tokens", "Output tokens a second, and those of good requests. Tokens of good requests count when a request ends, others "
                      "while it runs.", "suffix: tok/s", (f"goodput:output_tokens:rate5m{{{RULES}}}", "all {{model}}"),
                      (f"goodput:good_tokens:rate5m{{{RULES}}}", "good {{model}}")),
            ]),
            ("Latency and load", [
                panel("TTFT P99", f"Time to first token, of all pods' requests together. {BOUNDARY}", "s",
                      (f"goodput:ttft_seconds:p99_rate5m{{{RULES}}}", "{{model}} {{route}}"), width=8),
                panel("TPOT P99", f"Time per output token of a request, of all pods' requests together. {BOUNDARY}", "s",
                      (f"goodput:tpot_seconds:p99_rate5m{{{RULES}}}", "{{model}} {{route}}"), width=8),
                panel("In flight and overdue", "Requests accepted and not finished, and those of them already past a bound: these will count as "
                      "bad when they end.", "none", (f"goodput:in_flight:sum{{{RULES}}}", "in flight {{model}}"),
                      (f"goodput:overdue:max{{{RULES}}}", "overdue {{model}}"), width=8, runbook="goodputoverdue"),
            ]),
        ],
    )


def latencies() -> dict:
    by_length = "histogram_quantile(0.9, sum by (le, output_tokens) (rate(goodput_e2e_by_output_seconds_bucket{%s}[$__rate_interval])))" % TRAFFIC
    return dashboard(
        "goodput-latency", "Goodput / Latency",
        "Percentiles and heatmaps from mergeable histograms, with the SLO's bounds as dashed lines. " + BOUNDARY,
        ["namespace", "model", "route", "slo"],
        [
            ("Time to first token", [
                latency("TTFT", "ttft", "Request head read to the first event that carries a token, reasoning included. Streams only.", "ttft"),
                heatmap("TTFT heatmap", "ttft", "Time to first token."),
                latency("First visible token", "visible_ttft", "To the first token that is not reasoning. Streams only."),
                latency("TTFB", "ttfb", "To the first byte of the reply's body, which may hold no token yet."),
            ]),
            ("Time per output token", [
                latency("TPOT", "tpot", "Per request: last minus first token time over the tokens after the first event. Streams only.", "tpot"),
                heatmap("TPOT heatmap", "tpot", "Time per output token, one sample a request."),
            ]),
            ("Between tokens", [
                latency("ITL", "itl", "One sample a token: long answers weigh more. The line is the bound on a request's own P99.", "itl_p99"),
                heatmap("ITL heatmap", "itl", "Inter-token latency, one sample a token."),
                latency("Inter-chunk", "inter_chunk", "Between events that carry tokens, whatever number each holds."),
                latency("Stall", "stall", "The largest gap of a request: what a reader feels as a freeze. A slow client can cause it too.", "stall"),
            ]),
            ("End to end", [
                latency("E2E", "e2e", "Head read to reply ended, failed requests too. Grows with the length of the answer.", "e2e"),
                heatmap("E2E heatmap", "e2e", "End to end."),
                panel("E2E P90 by output length", f"A shift in answer lengths does not show here, a change in speed does. {BOUNDARY}", "s",
                      (by_length, "{{output_tokens}} tokens")),
                latency("Upload", "upload", "Head read to the last request byte handed on: a slow sender's share of TTFT."),
            ]),
        ],
    )


def causes() -> dict:
    def by(label: str, metric: str, labels: str) -> str:
        return f"sum by ({label}) (rate({metric}{{{labels}}}[$__rate_interval]))"

    slo = 'namespace=~"$namespace", route=~"$route", model=~"$model", slo=~"$slo"'
    tokens = "histogram_quantile(%s, sum by (le) (rate(goodput_%s_tokens_bucket{%s}[$__rate_interval])))"
    return dashboard(
        "goodput-causes", "Goodput / Causes and saturation",
        "Why requests are bad: which bound, which outcome, or the load; and whether the proxy itself is well.",
        ["namespace", "model", "route", "slo"],
        [
            ("Why requests are bad", [
                panel("Broken bounds", "Judged requests a second that broke this bound. One may break several: the lines do not add up to the "
                      "bad ones.", "reqps", (by("bound", "goodput_slo_violations_total", slo), "{{bound}}"),
                      (f"sum(rate(goodput_slo_bad_total{{{slo}}}[$__rate_interval]))", "bad in all"), runbook="goodputbelow99"),
                panel("Broken alone", "Requests that ended ok and broke only this bound: what relaxing it, or mending its cause, would win.",
                      "reqps", (by("bound", "goodput_slo_sole_violations_total", slo), "{{bound}}"), runbook="goodputbelow99"),
                panel("Outcomes", "Finished requests a second by how they ended. All but ok, client_error, rejected and (mostly) "
                      "client_cancelled count as bad.", "reqps", (by("outcome", "goodput_requests_total", TRAFFIC), "{{outcome}}"), stack=True,
                      runbook="goodputbelow99"),
                panel("Excluded", "Requests a second that were not judged, by reason.", "reqps",
                      (by("reason", "goodput_slo_excluded_total", slo), "{{reason}}")),
            ]),
            ("Load", [
                panel("Requests", "Finished requests a second by API and whether the reply was a stream.", "reqps",
                      (by("api, streaming", "goodput_requests_total", TRAFFIC), "{{api}} streaming={{streaming}}")),
                panel("In flight by pod", "An uneven picture points to the balancer, an even and rising one to too few replicas.", "none",
                      (f"sum by (pod, instance) (goodput_in_flight{{{TRAFFIC}}})", "{{pod}} {{instance}}"), runbook="goodputsaturation"),
                panel("Overdue and stalled", "In flight and already past a bound, or silent for longer than is ordinary for their series.", "none",
                      (f"sum by (bound) (goodput_overdue{{{TRAFFIC}}})", "overdue {{bound}}"),
                      (f"sum(goodput_stalled{{{TRAFFIC}}})", "stalled"), runbook="goodputhang"),
                panel("Output tokens", 'Tokens a second. From "events": the server sent no usage, and one event may hold several tokens.',
                      "suffix: tok/s", (by("token_source", "goodput_output_tokens_total", TRAFFIC), "{{token_source}}"),
                      (f"sum(rate(goodput_good_tokens_total{{{TRAFFIC}}}[$__rate_interval]))", "of good requests")),
                panel("Prompt tokens", "Prompt length as the servers report it: longer prompts mean longer prefill.", "none",
                      *[(tokens % (q, "prompt", TRAFFIC), f"P{int(float(q) * 100)}") for q in ("0.5", "0.9", "0.99")],
                      (f"sum(rate(goodput_prompt_tokens_total{{{TRAFFIC}}}[$__rate_interval]))", "tokens a second")),
                panel("Output length", "Output tokens of a request: longer answers mean longer end to end.", "none",
                      *[(tokens % (q, "output", TRAFFIC), f"P{int(float(q) * 100)}") for q in ("0.5", "0.9", "0.99")]),
            ]),
            ("Towards the model server", [
                panel("Connections", "Attempts above requests: some were handed back unsent and sent again. Connects near to attempts: connections "
                      "are not reused.", "ops", (f"sum(rate(goodput_proxy_upstream_attempts_total{{{PROXY}}}[$__rate_interval]))", "attempts"),
                      (f"sum(rate(goodput_proxy_upstream_connects_total{{{PROXY}}}[$__rate_interval]))", "connects"),
                      (f"sum(rate(goodput_proxy_upstream_connect_errors_total{{{PROXY}}}[$__rate_interval]))", "connect errors"), width=8),
                panel("Not measured", "Replies that could not be read fully for measuring; their bytes went through.", "ops",
                      (by("reason", "goodput_tap_degraded_total", PROXY), "{{reason}}"), width=8, runbook="goodputmeasurementdegraded"),
                panel('Counted as "other"', "Models or tenants past the cap, or that no upstream knows.", "ops",
                      (by("label", "goodput_proxy_label_overflow_total", PROXY), "{{label}}"), width=8, runbook="goodputlabeloverflow"),
            ]),
            ("The proxy", [
                panel("Own overhead P99", "What the proxy itself adds: to a request before it is sent on, to each chunk between read and hand-over.",
                      "s", ("histogram_quantile(0.99, sum by (le, stage) (rate(goodput_overhead_seconds_bucket{%s}[$__rate_interval])))" % PROXY,
                            "{{stage}}"), width=8),
                panel("CPU", "Cores used by each proxy.", "none",
                      (f"rate(process_cpu_seconds_total{{{PROXY}}}[$__rate_interval]) and on (job, instance) goodput_build_info", "{{pod}} {{instance}}"),
                      width=8),
                panel("File descriptors", "Share of the limit; each client and each upstream connection holds one.", "percentunit",
                      (f"process_open_fds{{{PROXY}}} / process_max_fds and on (job, instance) goodput_build_info", "{{pod}} {{instance}}"), width=8,
                      runbook="goodputfiledescriptors"),
            ]),
        ],
    )


def pod() -> dict:
    def rate(metric: str, legend: str) -> tuple[str, str]:
        return (f"rate({metric}{{{POD}}}[$__rate_interval])", legend)

    series = POD + ', window="$window"'

    def rolling(measure: str) -> tuple[str, str]:
        return (f'goodput_rolling_seconds{{{series}, measure="{measure}"}}', "P{{quantile}} {{model}} {{route}}")

    return dashboard(
        "goodput-pod", "Goodput / One pod",
        "What one proxy measures and how it fares. Its rolling ratios and quantiles must not be averaged over pods.",
        ["namespace", "instance", "window"],
        [
            ("State", [
                panel("Ready", "1 while the readiness probe answers 200; 0 while starting or draining.", "none",
                      (f"goodput_proxy_ready{{{POD}}}", "ready"), kind="stat", width=4, height=5, thresholds=steps((RED, None), (GREEN, 1))),
                panel("Version", "The version that runs and the definition profile of its numbers.", "none",
                      (f"goodput_build_info{{{POD}}}", "{{version}} ({{profile}})"), kind="stat", width=6, height=5, text="name"),
                panel("Uptime", "Since the process started.", "s", (f"time() - process_start_time_seconds{{{POD}}}", "up"),
                      kind="stat", width=4, height=5),
                panel("In flight", "Requests accepted and not finished.", "none", (f"sum(goodput_in_flight{{{POD}}})", "in flight"),
                      kind="stat", width=5, height=5, runbook="goodputsaturation"),
                panel("Overdue", "The most requests past any one bound.", "none", (f"max(sum by (bound) (goodput_overdue{{{POD}}}))", "overdue"),
                      kind="stat", width=5, height=5, thresholds=steps((GREEN, None), (ORANGE, 1)), runbook="goodputoverdue"),
            ]),
            ("Goodput", [
                panel("Goodput", "Good share within the rolling window; what is in flight and past a bound counts as bad already.", "percentunit",
                      (f"goodput_ratio{{{series}}}", "{{model}} {{slo}}"),
                      (f"goodput_slo_objective_ratio{{{POD}}}", "Objective {{route}}/{{slo}}"), max=1, overrides=[dashed("Objective")]),
                panel("Good requests", "A second, within the rolling window.", "reqps", (f"goodput_rate{{{series}}}", "{{model}} {{slo}}")),
                panel("Good tokens", "Output tokens of good requests a second, within the rolling window.", "suffix: tok/s",
                      (f"goodput_good_tokens_rate{{{series}}}", "{{model}} {{slo}}")),
                panel("In flight", "Requests in flight, past a bound, and silent for unusually long.", "none",
                      (f"sum by (model) (goodput_in_flight{{{POD}}})", "in flight {{model}}"),
                      (f"sum by (model, bound) (goodput_overdue{{{POD}}})", "overdue {{model}} {{bound}}"),
                      (f"sum by (model) (goodput_stalled{{{POD}}})", "stalled {{model}}")),
            ]),
            ("Rolling latency", [
                panel("TTFT", f"Nearest-rank quantiles of this pod over the rolling window. {BOUNDARY}", "s", rolling("ttft")),
                panel("TPOT", f"Nearest-rank quantiles of this pod over the rolling window. {BOUNDARY}", "s", rolling("tpot")),
                panel("ITL", f"Nearest-rank quantiles of this pod over the rolling window. {BOUNDARY}", "s", rolling("itl")),
                panel("E2E", f"Nearest-rank quantiles of this pod over the rolling window. {BOUNDARY}", "s", rolling("e2e")),
            ]),
            ("Process", [
                panel("CPU", "Cores used.", "none", rate("process_cpu_seconds_total", "cores"), width=6),
                panel("Memory", "Resident memory.", "bytes", (f"process_resident_memory_bytes{{{POD}}}", "resident"), width=6),
                panel("File descriptors", "Open, and the limit.", "none", (f"process_open_fds{{{POD}}}", "open"),
                      (f"process_max_fds{{{POD}}}", "limit"), width=6, log=True, runbook="goodputfiledescriptors"),
                panel("Threads", "Threads of the process.", "none", (f"process_threads{{{POD}}}", "threads"), width=6),
                panel("Connections", "Client connections open, and accepted a second.", "none",
                      (f"goodput_proxy_open_connections{{{POD}}}", "open"), rate("goodput_proxy_connections_total", "accepted a second")),
                panel("Trouble", "Refused heads, timeouts, failed accepts and connects, replies not measured, a second. All 0 is well.", "ops",
                      rate("goodput_proxy_refused_heads_total", "refused head: {{reason}}"),
                      rate("goodput_proxy_header_timeouts_total", "header timeout"),
                      rate("goodput_proxy_tls_handshake_errors_total", "TLS handshake error"),
                      rate("goodput_proxy_accept_errors_total", "accept error"),
                      rate("goodput_proxy_upstream_connect_errors_total", "upstream connect error"),
                      rate("goodput_proxy_informational_dropped_total", "1xx dropped"),
                      rate("goodput_tap_degraded_total", "not measured: {{reason}}")),
                panel("Configuration", "Reloads a second by result, and whether the last one was refused: the file and what runs then differ.",
                      "none", rate("goodput_proxy_config_reloads_total", "reload: {{result}}"),
                      (f"1 - goodput_proxy_config_last_reload_successful{{{POD}}}", "last one refused"), width=6),
                panel("Upstream", "Attempts, connects and upgrades to tunnels, a second.", "ops",
                      rate("goodput_proxy_upstream_attempts_total", "attempts"), rate("goodput_proxy_upstream_connects_total", "connects"),
                      rate("goodput_proxy_upgrades_total", "upgrades")),
                panel("Own overhead P99", "To a request before it is sent on, and to each chunk between read and hand-over.", "s",
                      ("histogram_quantile(0.99, sum by (le, stage) (rate(goodput_overhead_seconds_bucket{%s}[$__rate_interval])))" % POD,
                       "{{stage}}")),
            ]),
        ],
    )


def files() -> dict[pathlib.Path, str]:
    made = {"fleet": fleet(), "latency": latencies(), "causes": causes(), "pod": pod()}
    return {HERE / f"dashboards/goodput-{name}.json": json.dumps(board, indent=1) + "\n" for name, board in made.items()}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)

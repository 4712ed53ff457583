"""Real proxies with forced SLO misses under real Prometheus servers: the fleet's numbers against those of all requests together, every
panel's query, and alerts from pending to resolved.

Two servers scrape the same three proxies, whose loads are unequal:

* a 3.x with native histograms on and the rules' real windows;
* a 2.x, classic, with every duration of the rules divided by 30, and a real Alertmanager behind it: hours of alerts in a minute.
"""

import asyncio
import json
import math
import re
import time
from types import SimpleNamespace

import pytest
import yaml
from conftest import DEPLOY, TOOLS, run

from dashboards import BOARDS, queries, variables
from live import MODEL, Loop, ModelServer, Process, Prometheus, Proxy, Webhook, chat, free_port, get, until

BOUND_MS = 500
CONFIG = f"""
routes:
  - name: chat
    slos:
      - name: interactive
        ttft: {BOUND_MS}ms
        tpot: 200ms
        itl_p99: 400ms
        stall: 1s
        e2e: 3s
labels: {{ models: {{ allow: [{MODEL}] }} }}
drain: {{ delay: off, timeout: 1s }}
"""
# Requests of each proxy in the load phase, and how many of them get their first token past the bound.
LOAD = {"a": (170, 3), "b": (40, 20), "c": (10, 10)}
LOAD_SECONDS = 14
SPEED = 30


def faster(text: str) -> str:
    """The rules with every duration divided by SPEED, and the counts that are rates times a window with them."""

    def shorter(match) -> str:
        units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
        return f"{match[1]}{max(1, int(match[2]) * units[match[3]] // SPEED)}s"

    text = re.sub(r"(\[)(\d+)([smhd])(?=\])", shorter, text)
    text = re.sub(r"((?:for|interval|offset):? )(\d+)([smhd])\b", shorter, text)
    return re.sub(r"(\* )(300|3600|21600|86400|259200)\b", lambda m: f"{m[1]}{int(m[2]) // SPEED}", text)


def test_faster_changes_windows_and_counts_alike():
    rule = "expr: rate(x[5m]) and y * 300 >= 100 and z offset 1h\n  for: 2m\n  interval: 30s\n record: goodput:ratio:rate5m"
    assert faster(rule) == "expr: rate(x[10s]) and y * 10 >= 100 and z offset 120s\n  for: 4s\n  interval: 1s\n record: goodput:ratio:rate5m"


@pytest.fixture(scope="module")
def story(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    loop, running = Loop(), []
    try:
        yield tell(program, folder, loop, running)
    finally:
        for process in reversed(running):
            process.child.kill()
            process.child.wait()


def scrape_config(proxies, **more) -> list[dict]:
    targets = [{"targets": [p.target], "labels": {"namespace": "models", "pod": p.name}} for p in proxies]
    return [{"job_name": "models/goodput-proxy", "scrape_interval": "2s", "static_configs": targets, **more}]


def tell(program, folder, loop, running) -> SimpleNamespace:
    server = ModelServer(loop)
    proxies = {name: Proxy(program, folder, name, server.port, CONFIG) for name in LOAD}
    running += proxies.values()
    told = SimpleNamespace(proxies=proxies, server=server)

    rules = (DEPLOY / "prometheus/rules/goodput.rules.yaml").read_text()
    (folder / "fast.yaml").write_text(faster(rules))
    # Real windows, evaluated every second.
    (folder / "real.yaml").write_text(re.sub(r"interval: \d+[sm]", "interval: 1s", rules))

    told.webhook = Webhook()
    alertmanager_port = free_port()
    (folder / "alertmanager.yml").write_text(json.dumps({
        "route": {"receiver": "test", "group_by": ["alertname"], "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"},
        "receivers": [{"name": "test", "webhook_configs": [{"url": told.webhook.url, "send_resolved": True}]}]}))
    # Debian's Alertmanager looks for its templates in /usr/share, and it is not installed: a mount of its own puts them there.
    running.append(Process(["unshare", "--mount", "sh", "-c", f"mount --bind {TOOLS}/prom2/usr/share /usr/share && exec \"$@\"", "alertmanager",
                            TOOLS / "prom2/usr/bin/prometheus-alertmanager", f"--config.file={folder}/alertmanager.yml",
                            f"--storage.path={folder}/am", f"--web.listen-address=127.0.0.1:{alertmanager_port}",
                            "--cluster.listen-address="], folder / "alertmanager.log"))
    until(lambda: get(f"http://127.0.0.1:{alertmanager_port}/-/ready")[0] == 200)

    general = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"}
    told.classic = Prometheus(TOOLS / "prom2/usr/bin/prometheus", folder, "classic", {
        "global": general, "rule_files": [str(folder / "fast.yaml")], "scrape_configs": scrape_config(proxies.values()),
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager_port}"]}]}]}})
    running.append(told.classic)
    prom3 = TOOLS / "prom3/usr/bin/prometheus"
    major, minor = re.search(r"version (\d+)\.(\d+)", run(prom3, "--version").stdout).groups()
    both = {"always_scrape_classic_histograms": True}
    if (int(major), int(minor)) >= (3, 8):  # a setting from then on, no flag
        both["scrape_native_histograms"] = True
    told.native = Prometheus(prom3, folder, "native", {
        "global": general, "rule_files": [str(folder / "real.yaml")],
        "scrape_configs": scrape_config(proxies.values(), **both)}, ["--enable-feature=native-histograms"])
    running.append(told.native)
    for prometheus in (told.classic, told.native):
        until(lambda: prometheus.query("count(goodput_build_info) == 3"))
    time.sleep(3)  # every counter is scraped at 0

    told.states = []  # (seconds, {alert: state}) whenever it changed
    begun = time.monotonic()

    def watch():
        states = told.classic.alerts()
        if not told.states or told.states[-1][1] != states:
            told.states.append((time.monotonic() - begun, states))
        return states

    async def load(proxy, requests, bad):
        async def one(n):
            await asyncio.sleep(n * LOAD_SECONDS / requests)
            # The bad ones are spread over the load, and over 0.6 to 1.5 s.
            late = bad and (n * bad) % requests < bad
            return await chat(proxy.port, ttft=0.6 + 0.9 * n / requests if late else 0.02, gap=0.005, tokens=5)

        return await asyncio.gather(*(one(n) for n in range(requests)))

    loads = [loop.call(load(proxies[name], *numbers)) for name, numbers in LOAD.items()]
    while not all(future.done() for future in loads):
        watch()
        time.sleep(0.2)
    told.replies = [reply for future in loads for reply in future.result()]
    time.sleep(5)  # scraped and evaluated
    watch()
    told.after_load = all_up(told)
    told.requests = {name: proxy.requests() for name, proxy in proxies.items()}

    # A backend that hangs: three requests without a byte, and no others.
    hung = [loop.call(chat(proxies["a"].port, hang=1)) for _ in range(3)]
    until(lambda: watch().get("GoodputHang") == "firing", 60, 0.2)
    # An alert that is over before its first notification is never heard of.
    until(lambda: ("GoodputHang", "firing") in told.webhook.heard, 60, 0.2)
    told.during_hang = all_up(told)
    until(lambda: "GoodputBelow99" not in watch(), 60, 0.2)
    for stream in hung:
        stream.cancel()
    until(lambda: "GoodputHang" not in watch(), 60, 0.2)
    until(lambda: {("GoodputBelow99", "resolved"), ("GoodputHang", "resolved")} <= set(told.webhook.heard), 60, 0.2)
    return told


def all_up(told) -> float:
    """A time at which both servers have a fresh answer of every proxy: on a busy machine a scrape may fail."""
    for prometheus in (told.classic, told.native):
        until(lambda: prometheus.query("count(up{job=~'.*goodput.*'} == 1) == 3"))
    return time.time()


def everything(story) -> list[dict]:
    return [request for requests in story.requests.values() for request in requests]


def test_every_request_came_through_and_was_judged(story):
    assert len(story.replies) == sum(n for n, _ in LOAD.values())
    assert all(reply.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n") for reply in story.replies)
    assert {name: len(requests) for name, requests in story.requests.items()} == {name: n for name, (n, _) in LOAD.items()}
    late = [r for r in everything(story) if r["ttft_ms"] > BOUND_MS]
    assert len(late) >= sum(bad for _, bad in LOAD.values())
    assert all(r["verdict"] == "bad" and "ttft" in r["broken"] for r in late)


def fleet(story) -> tuple[int, int]:
    verdicts = [r["verdict"] for r in everything(story)]
    return verdicts.count("good"), verdicts.count("good") + verdicts.count("bad")


def test_fleet_counters_are_those_of_all_requests_together(story):
    good, judged = fleet(story)
    at = story.after_load
    assert story.native.value("sum(goodput_slo_good_total)", at) == good
    assert story.native.value("sum(goodput_slo_evaluated_total)", at) == judged
    assert story.native.value("sum(goodput_slo_bad_total)", at) == judged - good


def test_fleet_goodput_of_the_rules_is_that_of_all_requests_together(story):
    good, judged = fleet(story)
    found = story.native.query("goodput:ratio:rate5m", story.after_load)
    assert [labels for labels, _ in found] == [{"__name__": "goodput:ratio:rate5m", "namespace": "models", "model": MODEL, "slo": "interactive"}]
    # What is left is how Prometheus extrapolates each pod's counters to the ends of the window.
    assert found[0][1] == pytest.approx(good / judged, abs=0.01)
    # The mean of the pods' ratios is far off: the test can tell them apart.
    ratios = [sum(r["verdict"] == "good" for r in requests) / len(requests) for requests in story.requests.values()]
    assert abs(sum(ratios) / len(ratios) - good / judged) > 0.2


def nearest_rank(values: list[float], q: float) -> float:
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1]


def edges(story, measure: str) -> list[float]:
    found = story.native.query(f'count by (le) (goodput_{measure}_seconds_bucket)', story.after_load)
    return sorted(float(labels["le"]) for labels, _ in found)


@pytest.mark.parametrize("measure, field", [("ttft", "ttft_ms"), ("tpot", "tpot_ms"), ("e2e", "e2e_ms")])
@pytest.mark.parametrize("q, name", [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")])
def test_fleet_percentiles_of_the_rules_are_those_of_all_requests_within_a_bucket(measure, field, q, name, story):
    values = [r[field] / 1000 for r in everything(story) if r[field] is not None]
    found = story.native.value(f"goodput:{measure}_seconds:{name}_rate5m", story.after_load)
    # The rank that falls between two requests may be either's.
    ranks = [nearest_rank(values, q), nearest_rank(values, min(1, q + 1 / len(values))), nearest_rank(values, q - 1 / len(values))]
    bounds = [0.0, *edges(story, measure)]
    lowest = max(edge for edge in bounds if edge < min(ranks))
    highest = min(edge for edge in bounds if edge >= max(ranks))
    assert lowest <= found <= highest, f"{found} is not within {lowest} .. {highest} of {ranks}"


def test_fleet_p99_is_not_the_mean_of_the_pods(story):
    per_pod = [nearest_rank([r["ttft_ms"] for r in requests], 0.5) for requests in story.requests.values()]
    together = nearest_rank([r["ttft_ms"] for r in everything(story)], 0.5)
    assert sum(per_pod) / len(per_pod) > 2 * together


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_native_histograms_give_the_percentile_within_their_finer_bucket(q, story):
    values = [r["ttft_ms"] / 1000 for r in everything(story)]
    found = story.native.value(f"histogram_quantile({q}, sum(rate(goodput_ttft_seconds[5m])))", story.after_load)
    ranks = [nearest_rank(values, p) for p in (q - 1 / len(values), q, min(1, q + 1 / len(values)))]
    assert min(ranks) * 0.95 <= found <= max(ranks) * 1.05


def test_native_and_classic_histograms_count_the_same(story):
    at = story.after_load
    native = story.native.value("histogram_count(sum(goodput_ttft_seconds))", at)
    classic = story.native.value('sum(goodput_ttft_seconds_bucket{le="+Inf"})', at)
    assert native == classic == len(everything(story))
    # The 2.x took the text format: no native histogram there.
    assert story.classic.value('sum(goodput_ttft_seconds_bucket{le="+Inf"})', at) == classic
    assert story.classic.query("goodput_ttft_seconds", at) == []


def test_the_configured_bounds_are_bucket_edges(story):
    assert BOUND_MS / 1000 in edges(story, "ttft")
    within = story.native.value(f'sum(goodput_ttft_seconds_bucket{{le="{BOUND_MS / 1000}"}})', story.after_load)
    assert within == sum(r["ttft_ms"] <= BOUND_MS for r in everything(story))


def boards_queries():
    own = {"goodput-pod": {"instance": "INSTANCE", "window": "1m"}}
    return [(name, title, expression) for name in sorted(BOARDS) for title, expression in queries(BOARDS[name], **own.get(name, {}))]


@pytest.mark.parametrize("server", ["native", "classic"])
def test_every_panels_query_returns_data(server, story):
    prometheus, missing = getattr(story, server), []
    for board, title, expression in boards_queries():
        expression = expression.replace("INSTANCE", story.proxies["a"].target)
        found = prometheus.query(expression, story.after_load)
        if not any(math.isfinite(value) for _, value in found):
            missing.append(f"{board}: {title}: {expression} gave {found[:2]}")
    assert missing == []


def test_a_panel_with_a_wrong_metric_has_no_data(story):
    _, _, expression = boards_queries()[0]
    assert story.native.query(expression.replace("goodput_", "goodputs_", 1), story.after_load) == []


def test_every_variable_has_choices(story):
    for board in BOARDS.values():
        for variable in variables(board).values():
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
                series = story.native.api("series", **{"match[]": metric.replace("$namespace", ".*")})
                assert {s.get(label) for s in series} - {None}, variable["name"]


def test_every_recording_rule_has_data(story):
    rules = yaml.safe_load((DEPLOY / "prometheus/rules/goodput.rules.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "record" in rule:
                assert story.native.query(rule["record"], story.after_load), rule["record"]


def test_no_rule_fails_to_evaluate(story):
    for prometheus in (story.native, story.classic):
        for group in prometheus.api("rules")["groups"]:
            for rule in group["rules"]:
                assert rule["health"] == "ok", rule


def states_of(story, alert: str) -> list[str]:
    states = []
    for _, active in story.states:
        state = active.get(alert, "inactive")
        if not states or states[-1] != state:
            states.append(state)
    return states


@pytest.mark.parametrize("alert", ["GoodputBelow99", "GoodputHang"])
def test_the_alert_goes_pending_firing_resolved(alert, story):
    states = states_of(story, alert)
    # A scrape that fails on a busy machine may set it back to pending in between.
    assert states[:2] == ["inactive", "pending"] and "firing" in states and states[-1] == "inactive", story.states
    assert [status for name, status in story.webhook.heard if name == alert][:1] == ["firing"]
    assert (alert, "resolved") in story.webhook.heard


def test_the_fast_burn_pages(story):
    assert "firing" in states_of(story, "GoodputBudgetBurn")


def test_a_hang_shows_although_the_counters_stand_still(story):
    at = story.during_hang
    assert story.classic.value("sum(goodput:overdue:max)", at) == 3
    assert story.classic.query("goodput:ratio:rate5m", at) == []
    # In flight they are all the same.
    assert story.classic.value('sum(goodput_in_flight{pod="a",route="chat"})', at) == 3


def test_nothing_else_fired(story):
    fired = {name for _, states in story.states for name, state in states.items() if state == "firing"}
    assert fired <= {"GoodputBelow99", "GoodputBudgetBurn", "GoodputHang", "GoodputOverdue"}


@pytest.mark.parametrize("generation", ["prom2", "prom3"])
def test_promtool_finds_nothing_to_say_about_the_page(generation, story):
    page = get(f"{story.proxies['a'].admin}/metrics")[1]
    done = run(TOOLS / generation / "usr/bin/promtool", "check", "metrics", input=page, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_promtool_objects_to_a_page_that_is_wrong(story):
    page = "# HELP goodput_x x\n# TYPE goodput_x counter\ngoodput_x 1\n"
    assert run(TOOLS / "prom2/usr/bin/promtool", "check", "metrics", input=page, check=False).returncode != 0


def test_the_model_servers_own_metrics_pass_through_the_traffic_port(story):
    assert get(f"http://127.0.0.1:{story.proxies['a'].port}/metrics") == (200, ModelServer.METRICS)


def test_the_autoscalers_query_gives_one_number(story):
    docs = yaml.safe_load((DEPLOY / "kustomize/components/keda/scaledobject.yaml").read_text())
    expression = docs["spec"]["triggers"][0]["metadata"]["query"].replace('"default"', '"models"')
    assert story.classic.value(expression, story.during_hang) == 3


def test_proxies_stop_cleanly(story):
    assert [proxy.stop() for proxy in story.proxies.values()] == [0, 0, 0]

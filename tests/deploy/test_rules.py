"""Rules and alerts under promtool of two Prometheus generations; the runbook; Alertmanager's and Prometheus' example files."""

import re

import pytest
import yaml
from conftest import DEPLOY, TOOLS, run

PROMETHEUS = ["prom2", "prom3"]
RULES = DEPLOY / "prometheus/rules/goodput.rules.yaml"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALL = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in ALL if "alert" in rule]
TESTS = sorted((DEPLOY / "prometheus/tests").glob("*.test.yaml"))


def promtool(generation: str, *arguments, **more):
    return run(TOOLS / generation / "usr/bin/promtool", *arguments, **more)


@pytest.mark.parametrize("generation", PROMETHEUS)
def test_rules_are_well_formed(generation):
    assert f"{len(ALL)} rules found" in promtool(generation, "check", "rules", "--lint=all", "--lint-fatal", RULES).stdout


@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.name)
@pytest.mark.parametrize("generation", PROMETHEUS)
def test_unit_tests_of_the_rules(generation, path):
    promtool(generation, "test", "rules", path)


# (file, the rule that is broken, how): each must fail the unit tests, or these would test nothing.
BROKEN = [
    ("goodput.test.yaml", "or 0 * goodput:slo_evaluated:rate5m", "or goodput:slo_evaluated:rate5m"),
    ("goodput.test.yaml", "(goodput:slo_evaluated:rate5m > 0)", "goodput:slo_evaluated:rate5m"),
    ("goodput.test.yaml", "expr: sum by (namespace, model, slo) (rate(goodput_slo_evaluated_total[5m]))",
     "expr: avg by (namespace, model, slo) (rate(goodput_slo_evaluated_total[5m]))"),
    ("goodput.test.yaml", "max by (namespace, slo)", "min by (namespace, slo)"),
    ("goodput.test.yaml", "* 300 >= 100", "* 300 >= 10"),
    ("goodput.test.yaml", "goodput:ratio:rate5m < 0.99", "goodput:ratio:rate5m < 0.98"),
    ("goodput.test.yaml", "and goodput:burn:rate5m > 14.4", "and goodput:burn:rate1h > 14.4"),
    ("goodput.test.yaml", "goodput:burn:rate6h > 6", "goodput:burn:rate6h > 600"),
    ("alerts.test.yaml", "unless on (namespace, model) (sum by", "and on (namespace, model) (sum by"),
    ("alerts.test.yaml", "expr: max by (namespace, model) (sum by", "expr: sum by (namespace, model) (sum by"),
    ("alerts.test.yaml", "absent(goodput_build_info)", "absent(up)"),
    ("alerts.test.yaml", "and on (job, instance) goodput_build_info", ""),
    ("alerts.test.yaml", "> 0.01", "> 0.1"),
    ("latency.test.yaml", "seconds_bucket[5m]))) >= 0", "seconds_bucket[5m])))"),
    ("latency.test.yaml", "expr: histogram_quantile(0.99, sum by (namespace, route, model, le) (rate(goodput_ttft_seconds_bucket[5m])))",
     "expr: max without (pod) (histogram_quantile(0.99, rate(goodput_ttft_seconds_bucket[5m])))"),
]


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_the_unit_tests_object_to_a_broken_rule(number, tmp_path):
    name, old, new = BROKEN[number]
    text = RULES.read_text()
    assert old in text, old
    text = text.replace(old, new)
    (tmp_path / "rules").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "rules" / RULES.name).write_text(text)
    test = tmp_path / "tests" / name
    test.write_text((DEPLOY / "prometheus/tests" / name).read_text())
    assert promtool("prom3", "check", "rules", tmp_path / "rules" / RULES.name, check=False).returncode == 0, "it must still be valid"
    assert promtool("prom3", "test", "rules", test, check=False).returncode != 0


def test_every_recorded_series_that_is_read_is_recorded():
    recorded = {rule["record"] for rule in ALL if "record" in rule}
    for rule in ALL:
        for name in re.findall(r"\bgoodput:[a-z0-9_:]+", rule["expr"]):
            assert name in recorded, name


def test_ratios_and_percentiles_are_never_averaged():
    for rule in ALL:
        assert "avg" not in rule["expr"], rule
        assert "goodput_ratio" not in rule["expr"] and "goodput_rolling" not in rule["expr"], rule


def test_every_alert_has_a_severity_annotations_and_a_place_in_the_runbook():
    text = (DEPLOY / "prometheus/runbook.md").read_text()
    for alert in ALERTS:
        assert alert["labels"]["severity"] in ("critical", "warning", "info"), alert
        assert {"summary", "description", "runbook_url"} == set(alert["annotations"]), alert
        assert alert["annotations"]["runbook_url"].rsplit("#", 1)[1] == alert["alert"].lower()
        assert "for" in alert, alert
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    by_name = {section.split("\n", 1)[0]: section for section in sections}
    assert {alert["alert"] for alert in ALERTS} <= set(by_name)
    for alert in {alert["alert"] for alert in ALERTS}:
        for part in ("**Means.**", "**Look at.**", "**Do.**"):
            assert part in by_name[alert], f"{alert}: {part}"


def test_alertmanagers_example():
    run(TOOLS / "prom2/usr/bin/amtool", "check-config", DEPLOY / "alertmanager/route-example.yml")


@pytest.mark.parametrize("generation", PROMETHEUS)
def test_prometheus_example(generation):
    assert "SUCCESS" in promtool(generation, "check", "config", DEPLOY / "prometheus/scrape-example.yml").stdout


@pytest.mark.parametrize("generation", PROMETHEUS)
def test_prometheus_example_for_kubernetes(generation, tmp_path):
    # Debian builds Prometheus without the discovery of pods: everything but that is checked.
    config = yaml.safe_load((DEPLOY / "prometheus/scrape-kubernetes-example.yml").read_text())
    assert config["scrape_configs"][0].pop("kubernetes_sd_configs") == [{"role": "pod"}]
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    promtool(generation, "check", "config", path)


@pytest.mark.parametrize("generation", PROMETHEUS)
def test_prometheus_of_compose(generation, tmp_path):
    config = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())
    config["rule_files"] = [str(RULES)]
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    promtool(generation, "check", "config", path)

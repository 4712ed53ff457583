"""The chart: lint, schema of its values, and that its container and objects are those of kustomize."""

import copy
import json

import pytest
import yaml
from conftest import ALL_ON, DEPLOY, documents, helm, run, templated

import semantics


def test_lint(chart, example_chart):
    for path in (chart, example_chart):
        assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", path).stdout


def test_by_default_nothing_needs_a_crd(chart):
    assert [d["kind"] for d in templated(chart, "goodput-proxy")] == ["ConfigMap"]


def test_it_packages(chart, tmp_path):
    helm("package", chart, "--destination", tmp_path)
    package = tmp_path / "goodput-proxy-0.1.0.tgz"
    # The rules and dashboards are in it, not links to files outside.
    from_package = documents(helm("template", "goodput-proxy", package, "--namespace", "models", *ALL_ON).stdout)
    assert from_package == templated(chart, "goodput-proxy", *ALL_ON)


def test_version_and_app_version_are_the_programs(chart, program):
    text = (chart / "Chart.yaml").read_text()
    version = run(program, "--version").stdout.split()[1]
    assert f"version: {version}\n" in text and f"appVersion: {version}\n" in text


@pytest.mark.parametrize("value", [
    "podMonitor.enable=true",
    "ports.admin=80",
    "ports.listen=http",
    "image.pullPolicy=Sometimes",
    "upstream=127.0.0.1:8000",
    "resources.limits.cpu=1",
    "drain.timeoutSeconds=-1",
    "config.drain.delay=1s",
    "podMonitor.interval=often",
    "keda.threshold=0",
    "prometheusRule.runbookUrl=here",
    "nonsense=1",
])
def test_the_schema_refuses(value, chart):
    assert helm("template", "x", chart, "--set", value, check=False).returncode != 0


def test_an_old_kubernetes_is_refused(chart):
    assert helm("template", "x", chart, "--kube-version", "1.24.0", check=False).returncode != 0


def container(docs) -> dict:
    return semantics.sidecars(docs)[0].proxy


def test_one_definition_of_the_container_native(sets):
    assert container(sets["helm example"]) == container(sets["kustomize vllm"])


def test_one_definition_of_the_container_classic(sets, example_chart):
    # The example with the other template: moved from initContainers to containers.
    path = example_chart / "templates/vllm.yaml"
    native = path.read_text()
    head = '      initContainers:\n        {{- include "goodput-proxy.native" . | nindent 8 }}\n      containers:\n'
    assert head in native
    try:
        path.write_text(native.replace(head, '      containers:\n        {{- include "goodput-proxy.classic" . | nindent 8 }}\n'))
        docs = templated(example_chart, "vllm")
    finally:
        path.write_text(native)
    assert container(docs) == container(sets["kustomize sglang"])
    for rule in semantics.RULES:
        assert list(rule(docs)) == [], rule.__name__


def test_one_definition_of_the_container_kubectl_patch(sets):
    native, by_flags = copy.deepcopy(container(sets["kustomize vllm"])), copy.deepcopy(container(sets["kubectl patch"]))
    assert by_flags.pop("env") and native.pop("volumeMounts")
    assert [a for a in native["args"] if "--config=" not in a] == [a for a in by_flags["args"] if "--slo=" not in a]
    del native["args"], by_flags["args"]
    assert by_flags == native


def spec(docs, kind):
    return semantics.kind(docs, kind)[0]["spec"]


@pytest.mark.parametrize("kind", ["PodMonitor", "PrometheusRule", "NetworkPolicy"])
def test_one_definition_of(kind, sets):
    assert spec(sets["helm chart, all on"], kind) == spec(sets["kustomize vllm"], kind)


def test_one_definition_of_the_autoscaler(sets):
    of_helm, of_kustomize = (copy.deepcopy(spec(sets[name], "ScaledObject")) for name in ("helm chart, all on", "kustomize vllm"))
    assert of_helm.pop("scaleTargetRef") and of_kustomize.pop("scaleTargetRef")
    assert of_helm == of_kustomize


def test_one_definition_of_the_configuration(sets, chart):

    of_helm = next(d for d in sets["helm chart, all on"] if d["kind"] == "ConfigMap" and "config.yaml" in d["data"])
    of_kustomize = yaml.safe_load((DEPLOY / "kustomize/base/config.yaml").read_text())
    assert yaml.safe_load(of_helm["data"]["config.yaml"]) == of_kustomize


def test_the_grace_period_follows_the_values(example_chart):
    docs = templated(example_chart, "vllm", "--set", "goodput-proxy.drain.timeoutSeconds=900,goodput-proxy.drain.serverShutdownSeconds=60")
    assert semantics.sidecars(docs)[0].pod["terminationGracePeriodSeconds"] == 990
    assert list(semantics.the_grace_period_is_long_enough(docs)) == []


def test_a_token_and_tls_on_the_admin_port(chart, example_chart):
    headers = [{"name": "Authorization", "value": "Bearer 0123456789abcdef"}]
    volume, mount = {"name": "own", "secret": {"secretName": "own"}}, {"name": "own", "mountPath": "/own", "readOnly": True}
    values = {"adminScheme": "HTTPS", "extraVolumes": [volume], "extraVolumeMounts": [mount], "drain": {"hookHeaders": headers}}
    docs = templated(example_chart, "vllm", "--set-json", f"goodput-proxy={json.dumps(values)}")
    sidecar = semantics.sidecars(docs)[0]
    server = sidecar.pod["containers"][0]
    assert server["lifecycle"]["preStop"]["httpGet"] == {"path": "/drain", "port": 9464, "scheme": "HTTPS", "httpHeaders": headers}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert sidecar.proxy[probe]["httpGet"]["scheme"] == "HTTPS"
    assert mount in sidecar.proxy["volumeMounts"] and volume in sidecar.pod["volumes"]
    for rule in semantics.RULES:
        assert list(rule(docs)) == [], rule.__name__
    endpoint = {"scheme": "https", "authorization": {"credentials": {"name": "own", "key": "token"}}}
    docs = templated(chart, "mon", *ALL_ON, "--set-json", f"podMonitor.endpoint={json.dumps(endpoint)}")
    assert endpoint.items() <= spec(docs, "PodMonitor")["podMetricsEndpoints"][0].items()


def test_labels_runbook_and_extra_objects(chart):
    docs = templated(
        chart, "mon", *ALL_ON, "--set", "podMonitor.labels.release=kps,prometheusRule.labels.release=kps,podMonitor.scrapeClassicHistograms=true",
        "--set", "prometheusRule.runbookUrl=https://wiki.test/goodput", "--set-json",
        'extraObjects=[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"{{ .Release.Name }}-more"}}]')
    for kind in ("PodMonitor", "PrometheusRule"):
        assert semantics.kind(docs, kind)[0]["metadata"]["labels"]["release"] == "kps"
    assert spec(docs, "PodMonitor")["scrapeClassicHistograms"] is True
    alerts = [r for g in spec(docs, "PrometheusRule")["groups"] for r in g["rules"] if "alert" in r]
    assert alerts and all(r["annotations"]["runbook_url"].startswith("https://wiki.test/goodput#") for r in alerts)
    assert any(d["metadata"]["name"] == "mon-more" for d in docs)


def test_a_changed_value_rolls_the_pods(example_chart):
    def checksum(*arguments):
        docs = templated(example_chart, "vllm", *arguments)
        return semantics.sidecars(docs)[0].template["metadata"]["annotations"]["goodput-proxy/config-checksum"]

    assert checksum() != checksum("--set", "goodput-proxy.config.objective=0.95")



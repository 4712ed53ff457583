"""Manifests of kustomize, Helm and kubectl patch: schemas of three Kubernetes versions, CRD schemas, and the rules of semantics.py, each
of which must object to a manifest broken on purpose."""

import copy
import json
import os
import shutil

import pytest
import yaml
from conftest import DEPLOY, HERE, KUBERNETES, TOOLS, documents, kustomized, run

import render
import semantics

NAMES = [f"kustomize {e}" for e in ["vllm", "trtllm", "sglang", "llm-d-inferencepool"]] + ["helm chart, all on", "helm example", "kubectl patch"]


def validate(version: str, files) -> tuple[int, str]:
    done = run(TOOLS / "venv/bin/kubernetes-validate", "-k", version, "--strict", *files, check=False)
    return done.returncode, done.stdout + done.stderr


def written(folder, name: str, docs: list[dict]):
    path = folder / (name.replace(" ", "-").replace(",", "") + ".yaml")
    path.write_text(yaml.safe_dump_all(docs))
    return path


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_manifest_passes_the_schemas_of_kubernetes(version, sets, tmp_path):
    code, output = validate(version, [written(tmp_path, name, docs) for name, docs in sets.items()])
    assert code == 0 and "Couldn't find schema for kind Deployment" not in output, output
    # Custom resources are skipped with a warning: exactly those have checks of their own.
    skipped = {line.split("schema for kind ")[1].split()[0] for line in output.splitlines() if "Couldn't find schema" in line}
    assert skipped == {"PodMonitor", "PrometheusRule", "ScaledObject", "InferencePool"}
    assert output.count(" passed for resource deployment/") == 6


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_schemas_object_to_a_misspelt_field(version, sets, tmp_path):
    broken = copy.deepcopy(sets["kustomize vllm"])
    semantics.sidecars(broken)[0].proxy["readinesProbe"] = {}
    assert validate(version, [written(tmp_path, "broken", broken)])[0] != 0


def test_the_admission_policy_passes_the_schema_of_1_35():
    code, output = validate("1.35", [DEPLOY / "admission/mutating-admission-policy.yaml"])
    assert code == 0 and "Couldn't find" not in output, output


def test_the_admission_policy_describes_the_same_container(program):
    policy = documents((DEPLOY / "admission/mutating-admission-policy.yaml").read_text())[0]
    text = policy["spec"]["mutations"][0]["applyConfiguration"]["expression"]
    patch = documents((DEPLOY / "kubectl/sidecar-patch.yaml").read_text())[0]["spec"]["template"]["spec"]
    proxy = patch["initContainers"][0]
    for argument in proxy["args"]:
        assert f'"{argument}"' in text, argument
    for key in ("runAsUser: 65532", "runAsGroup: 65532", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false",
                'drop: ["ALL"]', 'type: "RuntimeDefault"', f'image: "{proxy["image"]}"', 'path: "/drain", port: 9464',
                f'terminationGracePeriodSeconds: {patch["terminationGracePeriodSeconds"]}'):
        assert key in text, key
    assert text.count("{") == text.count("}") and text.count("[") == text.count("]")


def crds(docs: list[dict], tmp_path) -> tuple[int, str]:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps(docs))
    # Modules are looked up from the script's own folder.
    done = run("node", shutil.copy(HERE / "crdcheck.mjs", TOOLS / "node"), path, check=False)
    return done.returncode, done.stdout + done.stderr


def test_custom_resources_pass_the_schemas_of_their_crds(sets, tmp_path):
    for name, docs in sets.items():
        code, output = crds(docs, tmp_path)
        assert code == 0, f"{name}: {output}"
        expected = sum(d["kind"] in ("PodMonitor", "PrometheusRule", "ScaledObject") for d in docs)
        assert output.count("ok ") == expected, output


@pytest.mark.parametrize("kind, breaks", [
    ("PodMonitor", lambda spec: spec.update(selector="app")),
    ("PodMonitor", lambda spec: spec["podMetricsEndpoints"][0].update(interval="often")),
    ("PrometheusRule", lambda spec: spec["groups"][0].pop("name")),
    ("PrometheusRule", lambda spec: spec["groups"][-1]["rules"][0].pop("expr")),
    ("ScaledObject", lambda spec: spec.pop("scaleTargetRef")),
    ("ScaledObject", lambda spec: spec["triggers"][0].pop("type")),
])
def test_the_schemas_of_crds_object_to_broken_resources(kind, breaks, sets, tmp_path):
    broken = copy.deepcopy([d for d in sets["kustomize vllm"] if d["kind"] == kind])
    breaks(broken[0]["spec"])
    code, output = crds(broken, tmp_path)
    assert code == 1 and f"BAD {kind}" in output, output


def test_the_inference_pool_has_the_fields_of_its_api(sets):
    # No validator of this CRD can be had: the fields that inference.networking.k8s.io/v1 requires, and no others.
    pool = semantics.kind(sets["kustomize llm-d-inferencepool"], "InferencePool")[0]
    assert pool["apiVersion"] == "inference.networking.k8s.io/v1"
    assert set(pool["spec"]) == {"selector", "targetPorts", "endpointPickerRef"}
    assert set(pool["spec"]["endpointPickerRef"]) == {"name", "port"}


@pytest.mark.parametrize("rule", semantics.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_every_set_keeps_the_rule(name, rule, sets):
    assert list(rule(sets[name])) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_program_accepts_every_flag_and_configuration(name, sets, program):
    assert list(semantics.the_program_accepts_flags_and_configuration(sets[name], program)) == []


def test_every_set_but_the_bare_chart_has_a_sidecar(sets):
    assert {name: len(semantics.sidecars(docs)) for name, docs in sets.items()} == {name: int(name != "helm chart, all on") for name in NAMES}


def proxy(docs):
    return semantics.sidecars(docs)[0].proxy


def server(docs):
    return semantics.sidecars(docs)[0].server


def pod(docs):
    return semantics.sidecars(docs)[0].pod


def first(docs, kind):
    return semantics.kind(docs, kind)[0]


def argument(docs, old, new):
    arguments = proxy(docs)["args"]
    arguments[arguments.index(old)] = new


# (rule, name of the set, what is done to it)
BROKEN = [
    ("one_proxy_of_the_right_kind", "kustomize vllm", lambda d: proxy(d).pop("restartPolicy")),
    # The schemas accept this.
    ("one_proxy_of_the_right_kind", "kustomize vllm", lambda d: proxy(d).update(restartPolicy="Sometimes")),
    ("one_proxy_of_the_right_kind", "kustomize sglang", lambda d: pod(d).update(initContainers=[dict(proxy(d), restartPolicy="Always")])),
    ("one_proxy_of_the_right_kind", "kustomize sglang", lambda d: proxy(d).update(restartPolicy="Always")),
    ("probes_ask_the_proxy_alone", "kustomize vllm", lambda d: proxy(d)["livenessProbe"]["httpGet"].update(path="/health")),
    ("probes_ask_the_proxy_alone", "kustomize vllm", lambda d: proxy(d)["startupProbe"]["httpGet"].update(path="/readyz")),
    ("probes_ask_the_proxy_alone", "kustomize vllm", lambda d: proxy(d)["readinessProbe"]["httpGet"].update(port="goodput")),
    ("probes_ask_the_proxy_alone", "kubectl patch", lambda d: proxy(d).pop("startupProbe")),
    ("the_server_stops_after_the_last_stream", "kustomize vllm", lambda d: server(d).pop("lifecycle")),
    ("the_server_stops_after_the_last_stream", "kustomize vllm",
     lambda d: server(d)["lifecycle"]["preStop"]["httpGet"].update(port="goodput-admin")),
    ("the_server_stops_after_the_last_stream", "kustomize sglang", lambda d: proxy(d).pop("lifecycle")),
    ("the_grace_period_is_long_enough", "kustomize vllm", lambda d: pod(d).pop("terminationGracePeriodSeconds")),
    ("the_grace_period_is_long_enough", "kustomize vllm", lambda d: pod(d).update(terminationGracePeriodSeconds=345)),
    ("the_grace_period_is_long_enough", "kustomize vllm", lambda d: server(d)["args"].append("--shutdown-timeout=45")),
    ("the_grace_period_is_long_enough", "kubectl patch",
     lambda d: next(v for v in proxy(d)["env"] if v["name"] == "GOODPUT__DRAIN__TIMEOUT").update(value="10m")),
    ("the_grace_period_is_long_enough", "helm example", lambda d: pod(d).update(terminationGracePeriodSeconds=30)),
    ("the_container_is_hardened", "kustomize vllm", lambda d: proxy(d)["securityContext"].update(readOnlyRootFilesystem=False)),
    ("the_container_is_hardened", "kustomize vllm", lambda d: proxy(d)["securityContext"]["capabilities"].update(add=["NET_ADMIN"])),
    ("resources_without_a_cpu_limit", "kustomize vllm", lambda d: proxy(d)["resources"]["limits"].update(cpu="1")),
    ("resources_without_a_cpu_limit", "kustomize vllm", lambda d: proxy(d)["resources"].pop("requests")),
    ("resources_without_a_cpu_limit", "kustomize vllm", lambda d: proxy(d)["resources"]["limits"].pop("memory")),
    ("ports_are_those_that_the_flags_name", "kustomize vllm", lambda d: argument(d, "--admin=0.0.0.0:9464", "--admin=0.0.0.0:9465")),
    ("ports_are_those_that_the_flags_name", "kustomize vllm", lambda d: argument(d, "--admin=0.0.0.0:9464", "--admin=0.0.0.0:8080")),
    ("the_proxy_leads_to_the_server", "kustomize vllm",
     lambda d: argument(d, "--upstream=http://127.0.0.1:8000", "--upstream=http://127.0.0.1:8001")),
    ("the_proxy_leads_to_the_server", "kustomize llm-d-inferencepool", lambda d: server(d)["args"].remove("--port=8200")),
    ("services_lead_to_the_proxy", "kustomize vllm", lambda d: first(d, "Service")["spec"]["ports"][0].update(targetPort=8000)),
    ("services_lead_to_the_proxy", "kustomize vllm", lambda d: first(d, "Service")["spec"]["ports"][0].update(targetPort="model")),
    ("services_lead_to_the_proxy", "kustomize llm-d-inferencepool",
     lambda d: first(d, "InferencePool")["spec"]["targetPorts"][0].update(number=8200)),
    ("prometheus_finds_the_pods", "kustomize vllm", lambda d: semantics.sidecars(d)[0].labels.pop("goodput-proxy/scrape")),
    ("prometheus_finds_the_pods", "kustomize vllm",
     lambda d: first(d, "PodMonitor")["spec"]["podMetricsEndpoints"][0].update(port="metrics")),
    ("the_admin_port_is_for_monitoring_only", "kustomize vllm", lambda d: first(d, "NetworkPolicy")["spec"]["ingress"][1].pop("from")),
    ("the_admin_port_is_for_monitoring_only", "kustomize llm-d-inferencepool",
     lambda d: first(d, "NetworkPolicy")["spec"]["ingress"][0]["ports"][0].update(port=8080)),
    ("the_autoscaler_has_its_target", "kustomize vllm", lambda d: first(d, "ScaledObject")["spec"]["scaleTargetRef"].update(name="vlm")),
    ("the_autoscaler_has_its_target", "kustomize vllm",
     lambda d: first(d, "ScaledObject")["spec"]["triggers"][0]["metadata"].update(query="sum(goodput_in_flight)")),
    ("rules_are_the_source", "kustomize vllm",
     lambda d: first(d, "PrometheusRule")["spec"]["groups"][-1]["rules"][0].update({"for": "1h"})),
    ("dashboards_are_the_files", "helm example",
     lambda d: next(c for c in d if c["metadata"]["name"] == "vllm-dashboards")["data"].pop("goodput-fleet.json")),
    ("the_image_is_this_version", "kustomize vllm", lambda d: proxy(d).update(image="goodput-proxy:latest")),
]


@pytest.mark.parametrize("number", range(len(BROKEN)), ids=lambda n: f"{BROKEN[n][0]}-{n}")
def test_the_rule_objects_to_a_broken_manifest(number, sets):
    name, which, breaks = BROKEN[number]
    rule = getattr(semantics, name)
    broken = copy.deepcopy(sets[which])
    breaks(broken)
    assert list(rule(broken)) != []


def test_every_rule_has_a_broken_manifest():
    assert {rule.__name__ for rule in semantics.RULES} == {name for name, _, _ in BROKEN}


@pytest.mark.parametrize("breaks", [
    lambda d: proxy(d)["args"].append("--max-tokens=1"),
    lambda d: argument(d, "--listen=0.0.0.0:8080", "--listen=8080"),
    lambda d: proxy(d)["volumeMounts"].clear(),
    lambda d: proxy(d).update(env=[{"name": "GOODPUT__DRAIN__DELAI", "value": "5s"}]),
    lambda d: next(c for c in d if c["kind"] == "ConfigMap" and "config.yaml" in c["data"])["data"].update({"config.yaml": "drain: {delay: 5}"}),
], ids=["flag", "value", "mount", "variable", "file"])
def test_the_program_objects_to_a_broken_manifest(breaks, sets, program):
    broken = copy.deepcopy(sets["kustomize vllm"])
    breaks(broken)
    assert list(semantics.the_program_accepts_flags_and_configuration(broken, program)) != []


def test_files_made_from_others_are_up_to_date():
    assert render.stale() == []


def test_all_examples_are_checked():
    assert sorted(p.name for p in (DEPLOY / "kustomize/examples").iterdir()) == sorted(n.split()[1] for n in NAMES if n.startswith("kustomize"))


def test_workloads_without_the_label_are_left_alone(tmp_path):
    # The components must touch nothing that did not ask for them.
    source = DEPLOY / "kustomize/examples/vllm/workload.yaml"
    target = DEPLOY / "kustomize/components/sidecar-native"
    plain = source.read_text().replace('    goodput-proxy/sidecar: "true"\n', "").replace('    goodput-proxy/repoint: "true"\n', "")
    (tmp_path / "workload.yaml").write_text(plain)
    relative = os.path.relpath(target, os.path.realpath(tmp_path))
    (tmp_path / "kustomization.yaml").write_text(f"resources: [workload.yaml]\ncomponents: [{relative}]\n")
    built = documents(run(TOOLS / "kubectl", "kustomize", tmp_path).stdout)
    assert sorted(built, key=lambda d: d["kind"]) == sorted(documents(plain), key=lambda d: d["kind"])


def test_a_changed_configuration_rolls_the_pods():
    docs = kustomized("vllm")
    name = next(d["metadata"]["name"] for d in docs if d["kind"] == "ConfigMap" and "config.yaml" in d["data"])
    assert name.startswith("goodput-proxy-config-") and len(name) > len("goodput-proxy-config-")

"""What no schema knows: rules that hold for any workload with the sidecar.

Each rule takes the documents of one set and yields what is wrong, nothing if all is well. test_manifests.py shows for each that it
objects to a manifest broken on purpose.
"""

import pathlib
import re
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARGIN_SECONDS = 5
# Model servers that say nothing about how long they take to stop.
SERVER_SHUTDOWN_SECONDS = 30

HARDENED = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def seconds(text: str) -> float:
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    number, unit = re.fullmatch(r"([0-9.]+)(ms|s|m|h)", text).groups()
    return float(number) * units[unit]


class Sidecar:
    """One workload with the proxy, and what its manifest says about it."""

    def __init__(self, workload: dict, documents: list[dict]):
        self.workload, self.documents = workload, documents
        self.template = workload["spec"]["template"]
        self.pod = self.template["spec"]
        self.labels = self.template["metadata"].get("labels", {})
        self.native = [c for c in self.pod.get("initContainers", []) if c["name"] == "goodput-proxy"]
        self.classic = [c for c in self.pod["containers"] if c["name"] == "goodput-proxy"]
        self.proxy = (self.native + self.classic)[0]
        self.server = next(c for c in self.pod["containers"] if c["name"] != "goodput-proxy")

    def flag(self, name: str) -> str | None:
        return next((a.split("=", 1)[1] for a in self.proxy["args"] if a.startswith(f"--{name}=")), None)

    def port(self, flag: str) -> int:
        return int(self.flag(flag).rsplit(":", 1)[1])

    def port_of(self, container: dict, reference) -> int | None:
        """The number that a probe's or Service's port means, looked up as Kubernetes does."""
        if isinstance(reference, int):
            return reference
        return next((p["containerPort"] for p in container.get("ports", []) if p.get("name") == reference), None)

    def config(self) -> dict:
        """The configuration file that is mounted, if any."""
        volumes = {v["name"]: v["configMap"]["name"] for v in self.pod.get("volumes", []) if "configMap" in v}
        for mount in self.proxy.get("volumeMounts", []):
            for document in self.documents:
                if document["kind"] == "ConfigMap" and document["metadata"]["name"] == volumes.get(mount["name"]):
                    return yaml.safe_load(document["data"]["config.yaml"])
        return {}

    def drain(self) -> tuple[float, float]:
        drain = {"delay": "5s", "timeout": "300s"} | self.config().get("drain", {})
        for variable in self.proxy.get("env", []):
            if variable["name"].startswith("GOODPUT__DRAIN__"):
                drain[variable["name"].rsplit("__")[-1].lower()] = variable["value"]
        return seconds(drain["delay"]), seconds(drain["timeout"])


def sidecars(documents: list[dict]) -> list[Sidecar]:
    found = []
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet"):
            spec = document["spec"]["template"]["spec"]
            if any(c["name"] == "goodput-proxy" for c in spec.get("initContainers", []) + spec["containers"]):
                found.append(Sidecar(document, documents))
    return found


def kind(documents: list[dict], name: str) -> list[dict]:
    return [document for document in documents if document["kind"] == name]


def one_proxy_of_the_right_kind(docs):
    for s in sidecars(docs):
        if len(s.native) + len(s.classic) != 1:
            yield f"{len(s.native) + len(s.classic)} proxies in one pod"
        for c in s.native:
            if c.get("restartPolicy") != "Always":
                yield "an init container without restartPolicy Always never lets the pod start"
        for c in s.classic:
            if "restartPolicy" in c:
                yield "restartPolicy in an ordinary container"


def probes_ask_the_proxy_alone(docs):
    for s in sidecars(docs):
        for name, path in [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]:
            get = s.proxy.get(name, {}).get("httpGet", {})
            if get.get("path") != path:
                yield f"{name} asks {get.get('path')}, not {path}"
            elif s.port_of(s.proxy, get["port"]) != s.port("admin"):
                yield f"{name} asks port {get['port']}, which is not the admin port"


def is_drain_hook(s, container):
    get = container.get("lifecycle", {}).get("preStop", {}).get("httpGet", {})
    if get.get("path") != "/drain":
        return f"{container['name']} has no drain hook"
    if get.get("port") != s.port("admin"):
        return f"the drain hook of {container['name']} asks {get.get('port')!r}: it must be the number of the admin port"
    return None


def the_server_stops_after_the_last_stream(docs):
    for s in sidecars(docs):
        for container in [s.server, *s.classic]:
            if problem := is_drain_hook(s, container):
                yield problem


def the_grace_period_is_long_enough(docs):
    for s in sidecars(docs):
        delay, timeout = s.drain()
        own = [float(a.split("=")[1]) for a in s.server.get("args", []) if a.startswith("--shutdown-timeout=")]
        needed = delay + timeout + (own or [SERVER_SHUTDOWN_SECONDS])[-1] + MARGIN_SECONDS
        grace = s.pod.get("terminationGracePeriodSeconds", 30)
        if grace <= needed:
            yield f"terminationGracePeriodSeconds {grace} is not above {needed:g}"


def the_container_is_hardened(docs):
    for s in sidecars(docs):
        if s.proxy.get("securityContext") != HARDENED:
            yield f"securityContext is {s.proxy.get('securityContext')}"


def resources_without_a_cpu_limit(docs):
    for s in sidecars(docs):
        resources = s.proxy.get("resources", {})
        for what in ("cpu", "memory"):
            if what not in resources.get("requests", {}):
                yield f"no {what} request: an HPA on resource metrics fails"
        if "memory" not in resources.get("limits", {}):
            yield "no memory limit"
        if "cpu" in resources.get("limits", {}):
            yield "a CPU limit distorts what is measured"


def ports_are_those_that_the_flags_name(docs):
    for s in sidecars(docs):
        if s.port("listen") == s.port("admin"):
            yield "traffic and admin share a port"
        for name, flag in [("goodput", "listen"), ("goodput-admin", "admin")]:
            if s.port_of(s.proxy, name) != s.port(flag):
                yield f"port {name} is not that of --{flag}"


def the_proxy_leads_to_the_server(docs):
    for s in sidecars(docs):
        upstream = int(s.flag("upstream").rsplit(":", 1)[1])
        if upstream not in [p["containerPort"] for p in s.server.get("ports", [])]:
            yield f"--upstream names port {upstream}, which the server does not have"
        told = [int(a.split("=")[1]) for a in s.server.get("args", []) if re.fullmatch(r"--port=\d+", a)]
        if told and told[-1] != upstream:
            yield f"the server listens on {told[-1]}, --upstream names {upstream}"
        if upstream in (s.port("listen"), s.port("admin")):
            yield "server and proxy share a port"


def services_lead_to_the_proxy(docs):
    for s in sidecars(docs):
        for service in kind(docs, "Service"):
            selector = service["spec"].get("selector", {})
            if selector.items() <= s.labels.items():
                port = s.port_of(s.proxy, service["spec"]["ports"][0]["targetPort"])
                if port != s.port("listen"):
                    yield f"Service {service['metadata']['name']} leads to {port}, past the proxy"
        for pool in kind(docs, "InferencePool"):
            if pool["spec"]["selector"]["matchLabels"].items() <= s.labels.items():
                if [p["number"] for p in pool["spec"]["targetPorts"]] != [s.port("listen")]:
                    yield f"InferencePool {pool['metadata']['name']} leads past the proxy"


def prometheus_finds_the_pods(docs):
    for s in sidecars(docs):
        for monitor in kind(docs, "PodMonitor"):
            if not monitor["spec"]["selector"]["matchLabels"].items() <= s.labels.items():
                yield "the PodMonitor does not select the pod"
            for endpoint in monitor["spec"]["podMetricsEndpoints"]:
                if s.port_of(s.proxy, endpoint["port"]) != s.port("admin"):
                    yield f"the PodMonitor scrapes port {endpoint['port']}"


def the_admin_port_is_for_monitoring_only(docs):
    for s in sidecars(docs):
        for policy in kind(docs, "NetworkPolicy"):
            if not policy["spec"]["podSelector"]["matchLabels"].items() <= s.labels.items():
                yield "the NetworkPolicy does not select the pod"
            open_to_all = [p["port"] for rule in policy["spec"]["ingress"] if "from" not in rule for p in rule["ports"]]
            limited = [p["port"] for rule in policy["spec"]["ingress"] if rule.get("from") for p in rule["ports"]]
            if open_to_all != [s.port("listen")]:
                yield f"open to all are {open_to_all}, not the traffic port alone"
            if s.port("admin") not in limited:
                yield "Prometheus cannot reach the admin port"


def the_autoscaler_has_its_target(docs):
    for scaled in kind(docs, "ScaledObject") if sidecars(docs) else []:
        workloads = {s.workload["metadata"]["name"]: s for s in sidecars(docs)}
        target = workloads.get(scaled["spec"]["scaleTargetRef"]["name"])
        if target is None:
            yield "scaleTargetRef names no workload of this set"
        else:
            namespace = target.workload["metadata"].get("namespace", "default")
            if f'namespace="{namespace}"' not in scaled["spec"]["triggers"][0]["metadata"]["query"]:
                yield "the query is of another namespace"


def rules_are_the_source(docs):
    source = yaml.safe_load((ROOT / "deploy/prometheus/rules/goodput.rules.yaml").read_text())
    for rule in kind(docs, "PrometheusRule"):
        if rule["spec"] != source:
            yield "the PrometheusRule differs from deploy/prometheus/rules"


def dashboards_are_the_files(docs):
    files = {p.name: p.read_text() for p in (ROOT / "deploy/grafana/dashboards").glob("*.json")}
    for found in kind(docs, "ConfigMap"):
        if found["metadata"]["name"].endswith("-dashboards"):
            if {name: text.strip() for name, text in found["data"].items()} != {n: t.strip() for n, t in files.items()}:
                yield "the dashboards' ConfigMap differs from deploy/grafana/dashboards"
            if found["metadata"]["labels"].get("grafana_dashboard") != "1":
                yield "Grafana's sidecar does not pick the dashboards up"


def the_image_is_this_version(docs):
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
    for s in sidecars(docs):
        if s.proxy["image"] != f"goodput-proxy:{version}":
            yield f"image {s.proxy['image']} is not version {version}"


def the_program_accepts_flags_and_configuration(docs, program):
    """`goodput-proxy check` with exactly the manifest's arguments, environment and file."""
    for s in sidecars(docs):
        with tempfile.TemporaryDirectory() as folder:
            arguments = list(s.proxy["args"])
            if arguments[0] != "run":
                yield f"the command is {arguments[0]}"
            if config := s.flag("config"):
                mounted = any(m["mountPath"] == str(pathlib.PurePath(config).parent) for m in s.proxy.get("volumeMounts", []))
                if not mounted or not s.config():
                    yield f"nothing mounts {config}"
                path = pathlib.Path(folder) / pathlib.PurePath(config).name
                path.write_text(yaml.safe_dump(s.config()))
                arguments = [a.replace(config, str(path)) for a in arguments]
            environment = {v["name"]: v["value"] for v in s.proxy.get("env", [])}
            done = subprocess.run([program, "check", *arguments[1:]], env=environment, capture_output=True, text=True, timeout=30)
            if done.returncode != 0:
                yield done.stderr.strip() or done.stdout.strip()


RULES = [
    one_proxy_of_the_right_kind,
    probes_ask_the_proxy_alone,
    the_server_stops_after_the_last_stream,
    the_grace_period_is_long_enough,
    the_container_is_hardened,
    resources_without_a_cpu_limit,
    ports_are_those_that_the_flags_name,
    the_proxy_leads_to_the_server,
    services_lead_to_the_proxy,
    prometheus_finds_the_pods,
    the_admin_port_is_for_monitoring_only,
    the_autoscaler_has_its_target,
    rules_are_the_source,
    dashboards_are_the_files,
    the_image_is_this_version,
]

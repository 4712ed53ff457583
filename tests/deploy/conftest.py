"""What every check uses: where the tools are, the program, and the manifests as kubectl and helm make them."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEPLOY = ROOT / "deploy"
TOOLS = pathlib.Path(os.environ.get("GOODPUT_DEPLOY_TOOLS") or pathlib.Path.home() / ".cache/goodput-proxy-deploy")
# Versions before the native sidecar was stable, at its default-on floor, and a recent one.
KUBERNETES = ["1.29", "1.33", "1.37"]
EXAMPLES = ["vllm", "trtllm", "sglang", "llm-d-inferencepool"]


def run(*command, check=True, **more) -> subprocess.CompletedProcess:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def documents(text: str) -> list[dict]:
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture(scope="session")
def program() -> str:
    path = os.environ["GOODPUT_PROXY"]
    assert os.access(path, os.X_OK), path
    return path


def kustomized(example: str) -> list[dict]:
    return documents(run(TOOLS / "kubectl", "kustomize", DEPLOY / "kustomize/examples" / example).stdout)


ALL_ON = [
    "--set",
    ",".join(f"{part}.enabled=true" for part in ["podMonitor", "prometheusRule", "dashboards", "networkPolicy", "keda"]),
]


def helm(*arguments, **more) -> subprocess.CompletedProcess:
    return run(TOOLS / "helm", *arguments, **more)


def templated(chart: pathlib.Path, release: str, *arguments) -> list[dict]:
    return documents(helm("template", release, chart, "--namespace", "models", *arguments).stdout)


@pytest.fixture(scope="session")
def chart() -> pathlib.Path:
    return DEPLOY / "helm/goodput-proxy"


@pytest.fixture(scope="session")
def example_chart(tmp_path_factory) -> pathlib.Path:
    """The example chart with its dependency built, in a copy: nothing is written into the project."""
    folder = tmp_path_factory.mktemp("charts")
    shutil.copytree(DEPLOY / "helm", folder / "helm", symlinks=False)
    helm("dependency", "build", folder / "helm/examples/vllm")
    return folder / "helm/examples/vllm"


def patched() -> list[dict]:
    """The plain vLLM workload after `kubectl patch`, both lines of deploy/kubectl/sidecar-patch.yaml's head."""
    workload, service = documents((DEPLOY / "kustomize/examples/vllm/workload.yaml").read_text())
    patch = DEPLOY / "kubectl/sidecar-patch.yaml"
    line = next(line for line in patch.read_text().splitlines() if "kubectl patch service" in line)
    local = [TOOLS / "kubectl", "patch", "--local", "-f", "-", "-o", "json"]
    return [
        json.loads(run(*local, "--type", "strategic", "--patch-file", patch, input=json.dumps(workload)).stdout),
        json.loads(run(*local, "--type", "json", "-p", line.split("'")[1], input=json.dumps(service)).stdout),
    ]


@pytest.fixture(scope="session")
def sets(chart, example_chart) -> dict[str, list[dict]]:
    """Every set of manifests that deploy/ can make, by name."""
    made = {f"kustomize {example}": kustomized(example) for example in EXAMPLES}
    made["helm chart, all on"] = templated(chart, "goodput-proxy", *ALL_ON)
    made["helm example"] = templated(example_chart, "vllm")
    made["kubectl patch"] = patched()
    return made

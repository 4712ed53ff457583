"""The Dockerfile and the compose file, as far as can be told without building (build_image.sh builds)."""

import re

import yaml
from conftest import DEPLOY, ROOT, TOOLS, run

from live import Process, free_port, get, until

DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
VERSION = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


def test_hadolint():
    run(TOOLS / "venv/bin/hadolint", "--failure-threshold", "info", ROOT / "Dockerfile")


def test_hadolint_objects_to_a_bad_one(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM rust\nRUN cd /src && cargo build\n")
    assert run(TOOLS / "venv/bin/hadolint", "--failure-threshold", "info", tmp_path / "Dockerfile", check=False).returncode != 0


def test_the_final_stage_is_empty_numeric_and_labelled():
    final = DOCKERFILE.split("FROM scratch\n")[1]
    assert "\nUSER 65532:65532\n" in final and "\nSTOPSIGNAL SIGTERM\n" in final
    assert '\nENTRYPOINT ["/goodput-proxy"]' in final
    assert final.count("COPY ") == 1
    assert f'org.opencontainers.image.version="{VERSION}"' in final


def test_the_build_image_has_the_crates_rust():
    rust = re.search(r'^rust-version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
    assert f"FROM rust:{rust}-" in DOCKERFILE


def test_the_build_context_holds_what_the_build_reads_and_no_more():
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert allowed == ["Cargo.toml", "Cargo.lock", "src", "config"]
    for path in (ROOT / "src").rglob("*.rs"):
        for included in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', path.read_text()):
            target = (path.parent / included).resolve().relative_to(ROOT)
            assert target.parts[0] in allowed or "tests" in str(path), f"{path} includes {target}, which is not in the build context"


def test_compose_publishes_on_loopback_only():
    for name, service in COMPOSE["services"].items():
        assert service["ports"] and all(port.startswith("127.0.0.1:") for port in service["ports"]), name


def test_compose_mounts_exist_and_versions_agree():
    assert COMPOSE["services"]["proxy"]["image"] == f"goodput-proxy:{VERSION}"
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / "compose" / source).exists(), source
            else:
                assert source in COMPOSE["volumes"], source


def test_compose_starts_the_demo_with_flags_that_it_has(program, tmp_path):
    proxy = COMPOSE["services"]["proxy"]
    command, *flags = proxy["command"]
    listen, admin = free_port(), free_port()
    addresses = {"--listen=0.0.0.0:8080": f"--listen=127.0.0.1:{listen}", "--admin=0.0.0.0:9464": f"--admin=127.0.0.1:{admin}"}
    assert addresses.keys() <= set(flags)
    demo = Process([program, command, *(addresses.get(flag, flag) for flag in flags)], tmp_path / "demo.log")
    try:
        until(lambda: 'outcome="ok"' in get(f"http://127.0.0.1:{admin}/metrics")[1])
        check = proxy["healthcheck"]["test"]
        assert check[:2] == ["CMD", "/goodput-proxy"]
        run(program, *check[2:], env={"GOODPUT__ADMIN": f"127.0.0.1:{admin}"})
        assert demo.stop() == 0
    finally:
        demo.child.kill()


def test_grafana_of_compose_finds_datasource_and_dashboards():
    mounts = dict(v.split(":")[:2] for v in COMPOSE["services"]["grafana"]["volumes"])
    provider = yaml.safe_load((DEPLOY / "compose/grafana/dashboards.yaml").read_text())["providers"][0]
    assert mounts["../grafana/dashboards"] == provider["options"]["path"]
    home = COMPOSE["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(provider["options"]["path"] + "/")
    assert (DEPLOY / "grafana/dashboards" / home.rsplit("/", 1)[1]).exists()
    source = yaml.safe_load((DEPLOY / "compose/grafana/datasources.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"

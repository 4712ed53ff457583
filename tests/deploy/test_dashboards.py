"""Dashboards as documents: up to date, of the classic schema, and as people keep them. test_live.py asks their queries of a Prometheus."""

import copy
import importlib.util
import json
import re

import promql_parser
import pytest
from conftest import DEPLOY, TOOLS, run

from dashboards import BOARDS, FILES, filled, panels, queries, variables

ALL = pytest.mark.parametrize("name", sorted(BOARDS))


def test_the_files_are_what_their_source_writes():
    path = DEPLOY / "grafana/dashboards.py"
    spec = importlib.util.spec_from_file_location("source", path)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    assert {file: text for file, text in source.files().items() if file.read_text() != text} == {}
    assert sorted(source.files()) == FILES


def test_there_are_four():
    assert sorted(BOARDS) == ["goodput-causes", "goodput-fleet", "goodput-latency", "goodput-pod"]


@ALL
def test_every_panel_says_what_it_shows(name):
    for panel in panels(BOARDS[name]):
        assert panel["title"] and len(panel["description"]) > 10 and panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        assert panel["targets"] and len({t["refId"] for t in panel["targets"]}) == len(panel["targets"])


@ALL
def test_ids_are_unique_and_nothing_overlaps(name):
    board = BOARDS[name]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


@ALL
def test_queries_parse_and_use_known_variables(name):
    board = BOARDS[name]
    asked = queries(board)
    assert len(asked) >= 15 or name == "goodput-fleet"
    for title, expression in asked:
        assert "$" not in expression, f"{title}: {expression}"
        promql_parser.parse(expression)


@ALL
def test_rates_use_the_interval_that_fits_the_scrape(name):
    for panel in panels(BOARDS[name]):
        for target in panel["targets"]:
            for window in re.findall(r"(?:rate|increase)\([^\[]*\[([^\]]+)\]", target["expr"]):
                assert window == "$__rate_interval", target["expr"]


@ALL
def test_nothing_names_one_installation(name):
    board = BOARDS[name]
    assert board["editable"] is False and board["schemaVersion"] >= 39 and board["uid"] == name and board["tags"] == ["goodput-proxy"]
    assert "id" not in board
    for variable in variables(board).values():
        if variable.get("includeAll"):
            assert variable["allValue"] == ".*", variable["name"]
    for _, expression in queries(board):
        assert not re.search(r'job\s*=~?\s*"', expression), expression


@ALL
def test_links_lead_to_the_runbook(name):
    board = BOARDS[name]
    headings = re.findall(r"^## (.+)$", (DEPLOY / "prometheus/runbook.md").read_text(), re.M)
    known = {heading.lower() for heading in headings}
    links = [link["url"] for panel in panels(board) for link in panel.get("links", [])]
    assert links or name == "goodput-pod"
    for url in links:
        target, anchor = url.split("#")
        assert target == "${runbook}" and anchor in known, url
    assert {"dashboards", "link"} == {link["type"] for link in board["links"]}


@pytest.mark.parametrize("bound, panel", [("ttft", "TTFT"), ("tpot", "TPOT"), ("itl_p99", "ITL"), ("stall", "Stall"), ("e2e", "E2E")])
def test_latencies_show_the_slos_bounds(bound, panel):
    shown = next(p for p in panels(BOARDS["goodput-latency"]) if p["title"] == panel)
    assert any('goodput_slo_target_seconds{' in t["expr"] and f'bound="{bound}"' in t["expr"] for t in shown["targets"])
    assert shown["fieldConfig"]["defaults"]["unit"] == "s"


def test_fleet_queries_never_average():
    for name in ("goodput-fleet", "goodput-latency", "goodput-causes"):
        for title, expression in queries(BOARDS[name]):
            assert "avg" not in expression and "goodput_ratio" not in expression and "goodput_rolling" not in expression, title


def test_filled_replaces_whole_names_only():
    assert filled("a[$__rate_interval] $slo ${slo:regex} $slow", {"__rate_interval": "1m", "slo": "x"}) == "a[1m] x x $slow"


def typed(tmp_path, boards) -> str:
    """Whether Grafana's own types accept the dashboards: the compiler's complaints."""
    folder = TOOLS / "node" / f"check-{tmp_path.name}"
    folder.mkdir(exist_ok=True)
    try:
        for name, board in boards.items():
            (folder / f"{name}.ts").write_text(
                "import type { Dashboard } from '@grafana/schema';\n"
                # An enumeration is its strings in JSON.
                "type Json<T> = T extends string ? T | `${T}` : T extends number | boolean | null | undefined ? T\n"
                "  : T extends (infer U)[] ? Json<U>[] : { [K in keyof T]: Json<T[K]> };\n"
                f"const board: Json<Dashboard> = {json.dumps(board)};\nexport default board;\n")
        return run(TOOLS / "node/node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "esnext",
                   "--moduleResolution", "bundler", *sorted(folder.glob("*.ts")), check=False).stdout
    finally:
        for file in folder.glob("*"):
            file.unlink()
        folder.rmdir()


def test_grafanas_types_accept_them_and_object_to_a_wrong_one(tmp_path):
    wrong = copy.deepcopy(BOARDS["goodput-pod"])
    wrong["panels"][1]["gridPos"]["w"] = "wide"
    output = typed(tmp_path, BOARDS | {"wrong": wrong})
    complaints = [line for line in output.splitlines() if "error" in line]
    assert complaints and all("wrong.ts" in line for line in complaints), output

"""What a dashboard's JSON asks of Prometheus, with its variables filled in."""

import json
import re

from conftest import DEPLOY

FILES = sorted((DEPLOY / "grafana/dashboards").glob("*.json"))
BOARDS = {path.stem: json.loads(path.read_text()) for path in FILES}


def panels(board: dict) -> list[dict]:
    """All panels but rows, those within rows too."""
    found = []
    for panel in board["panels"]:
        found += [panel] if panel["type"] != "row" else []
        found += panel.get("panels", [])
    return found


def filled(expression: str, values: dict[str, str]) -> str:
    for name, value in sorted(values.items(), key=lambda item: -len(item[0])):
        expression = re.sub(r"\$\{?%s(:\w+)?\}?(?!\w)" % re.escape(name), lambda _: value, expression)
    return expression


def variables(board: dict) -> dict[str, dict]:
    return {variable["name"]: variable for variable in board["templating"]["list"]}


def queries(board: dict, **own) -> list[tuple[str, str]]:
    """(panel title and query letter, expression) with `All` chosen everywhere, the defaults elsewhere, `own` first."""
    values = {"__rate_interval": "15s", "__interval": "5s", "__range": "1h"}
    for name, variable in variables(board).items():
        values[name] = variable.get("allValue") or variable["current"].get("value") or ""
    values |= own
    return [(f"{panel['title']} {target['refId']}", filled(target["expr"], values)) for panel in panels(board) for target in panel["targets"]]

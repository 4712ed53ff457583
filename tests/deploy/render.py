#!/usr/bin/env python3
"""Writes the files of deploy/ that are made from another file, so that each fact has one source. With --check: compares only.

The PrometheusRule of kustomize is deploy/prometheus/rules/goodput.rules.yaml, indented below an object's head.
"""

import pathlib
import sys

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"

HEAD = """\
# Made from deploy/prometheus/rules/goodput.rules.yaml by tests/deploy/render.py: change it there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: goodput-proxy
  labels:
    app.kubernetes.io/name: goodput-proxy
spec:
"""


def prometheus_rule() -> str:
    rules = (DEPLOY / "prometheus/rules/goodput.rules.yaml").read_text()
    body = rules[rules.index("groups:\n") :]
    return HEAD + "".join(f"  {line}" if line.strip() else line for line in body.splitlines(keepends=True))


def files() -> dict[pathlib.Path, str]:
    return {DEPLOY / "kustomize/components/prometheusrule/prometheusrule.yaml": prometheus_rule()}


def stale() -> list[pathlib.Path]:
    return [path for path, text in files().items() if not path.exists() or path.read_text() != text]


if __name__ == "__main__":
    if "--check" in sys.argv:
        for path in stale():
            print(f"{path} is not what tests/deploy/render.py writes")
        sys.exit(bool(stale()))
    for path, text in files().items():
        path.write_text(text)

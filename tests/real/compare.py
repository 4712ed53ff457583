#!/usr/bin/env python3
"""Holds goodput-proxy against a real model server, its own counters and real clients.

    tests/real/compare.py --upstream http://127.0.0.1:8000 --model NAME --tokenizer DIR [--requests N] [--concurrency N]

Needs: a running OpenAI-compatible server (vLLM for the server's own counters), the release binary (`cargo build --release`),
`pip install aiperf openai anthropic`, and AIPerf's `aiperf` on PATH (or --aiperf).

1. SDKs: the openai and anthropic packages make the same calls directly and through the proxy, greedy; the objects must be equal but
   for identifiers and times. A server without /v1/messages is said so.
2. AIPerf runs through the proxy; each of its records is joined to the proxy's own by the order in which requests ended, and TTFT,
   E2E and output tokens are compared. Its clock starts before connect; requests that had to connect are told apart.
3. The server's own token counters must move by what the proxy counted.

Exit 0 when all hold, 1 when not. Everything stays on the addresses given.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Agreement that counts as equal: within 2 ms or 2 %.
ABSOLUTE_MS, RELATIVE = 2.0, 0.02


def get(url, timeout=10):
    with urllib.request.urlopen(url, timeout=timeout) as reply:
        return reply.read().decode()


class Proxy:
    """The release binary in front of the server, on free ports."""

    def __init__(self, binary, upstream):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False)
        command = [binary, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                   "--upstream", upstream, "--slo", "ttft=2s,tpot=300ms", "--log-format", "json"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(100):
            line = next((json.loads(l) for l in Path(self.log.name).read_text().splitlines() if '"listen"' in l), None)
            if line:
                self.url, self.admin = "http://" + line["listen"], "http://" + line["admin"]
                return
            time.sleep(0.05)
        raise SystemExit(f"the proxy did not start, see {self.log.name}")

    def requests(self):
        """Finished requests of LLM routes, oldest first."""
        found = [r for r in json.loads(get(self.admin + "/requests")) if r["route"] != "other"]
        return sorted(found, key=lambda r: r["ended"])

    def counter(self, name, **labels):
        total = 0.0
        for line in get(self.admin + "/metrics").splitlines():
            if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def server_tokens(upstream):
    """vLLM's own counters: prompt and generation tokens."""
    text = get(upstream + "/metrics")
    found = {}
    for name in ("prompt_tokens", "generation_tokens"):
        values = re.findall(rf"^vllm:{name}_total(?:{{[^}}]*}})? ([0-9.e+]+)", text, re.M)
        found[name] = sum(map(float, values)) if values else None
    return found


# What differs between two runs of the same call by its nature.
VOLATILE = {"id", "created", "created_at", "system_fingerprint", "request_id", "_request_id", "completed_at", "item_id", "response_id"}


def stable(value):
    if isinstance(value, dict):
        return {k: stable(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list):
        return [stable(v) for v in value]
    return value


def text_of(events):
    """Streams may be cut into events differently on each run; what they say must be the same."""
    text, finish, usage = "", [], None
    for e in events:
        for c in e.get("choices", []):
            text += (c.get("delta") or {}).get("content") or c.get("text") or ""
            if c.get("finish_reason"):
                finish.append(c["finish_reason"])
        usage = e.get("usage") or usage
    return {"text": text, "finish": finish, "usage": usage}


def sdk_calls(base, model):
    """The same calls against `base`: name -> what came back, or the error's name."""
    import anthropic
    from openai import OpenAI

    client = OpenAI(base_url=base + "/v1", api_key="x", max_retries=0)
    messages = [{"role": "user", "content": "Say something about foxes."}]
    common = dict(model=model, messages=messages, max_tokens=24, temperature=0, seed=7)
    out = {}

    def call(name, f):
        try:
            out[name] = f()
        except Exception as error:  # noqa: BLE001 - a server without this API must fail alike both ways
            out[name] = f"{type(error).__name__}: {error}"[:200]

    call("openai chat", lambda: stable(client.chat.completions.create(**common).model_dump()))
    call("openai chat stream", lambda: text_of([c.model_dump() for c in client.chat.completions.create(
        **common, stream=True, stream_options={"include_usage": True})]))
    call("openai chat n=2 stream", lambda: {"events": bool([1 for _ in client.chat.completions.create(
        **{**common, "temperature": 0.8}, n=2, stream=True)])})
    call("openai completions stream", lambda: text_of([c.model_dump() for c in client.completions.create(
        model=model, prompt="Foxes", max_tokens=16, temperature=0, seed=7, stream=True)]))
    call("openai unknown model", lambda: stable(client.chat.completions.create(**{**common, "model": "no-such-model"}).model_dump()))
    call("openai models", lambda: stable(client.models.list().model_dump()))
    def streamed_message():
        sdk = anthropic.Anthropic(base_url=base, api_key="x", max_retries=0)
        with sdk.messages.stream(model=model, max_tokens=16, extra_body={"temperature": 0}, messages=messages) as stream:
            return stable(stream.get_final_message().model_dump())
    call("anthropic messages", lambda: stable(anthropic.Anthropic(base_url=base, api_key="x", max_retries=0).messages.create(
        model=model, max_tokens=16, extra_body={"temperature": 0}, messages=messages).model_dump()))
    call("anthropic messages stream", streamed_message)
    return out


def compare_sdks(proxy, args):
    direct, through = sdk_calls(args.upstream, args.model), sdk_calls(proxy.url, args.model)
    wrong = [name for name in direct if direct[name] != through[name]]
    for name in direct:
        kind = direct[name] if isinstance(direct[name], str) else "object"
        print(f"sdk  {name:28} {'equal' if name not in wrong else 'DIFFERS'} ({kind})", file=sys.stderr)
        if name in wrong:
            print("  direct :", direct[name], "\n  through:", through[name], file=sys.stderr)
    return wrong, len(direct)


def aiperf(proxy, args, out):
    command = [args.aiperf, "profile", "-m", args.model, "--url", proxy.url, "--endpoint-type", "chat", "--streaming",
               "--tokenizer", args.tokenizer, "--use-server-token-count", "--concurrency", str(args.concurrency),
               "--request-count", str(args.requests), "--isl", "32", "--osl", "24", "--extra-inputs", "ignore_eos:true",
               "--export-level", "raw", "--artifact-dir", str(out), "--ui", "none"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records = [json.loads(l) for l in (out / "profile_export.jsonl").read_text().splitlines()]
    return sorted(records, key=lambda r: r["metadata"]["request_end_ns"])


def close(a, b):
    return abs(a - b) <= max(ABSOLUTE_MS, RELATIVE * max(a, b))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--binary", default=ROOT / "target/release/goodput-proxy", help="the proxy")
    parser.add_argument("--aiperf", default="aiperf")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--concurrency", type=int, default=2)
    args = parser.parse_args()

    proxy = Proxy(args.binary, args.upstream)
    failures = []
    try:
        wrong, calls = compare_sdks(proxy, args)
        failures += [f"SDK call {name} differs" for name in wrong]

        before, seen = server_tokens(args.upstream), len(proxy.requests())
        ours_before = {k: proxy.counter(k) for k in ("goodput_output_tokens_total", "goodput_prompt_tokens_total")}
        with tempfile.TemporaryDirectory() as out:
            records = aiperf(proxy, args, Path(out))
        after, ours = server_tokens(args.upstream), proxy.requests()[seen:]
        if len(ours) < len(records):
            raise SystemExit(f"AIPerf has {len(records)} records, the proxy {len(ours)}")
        ours = ours[-len(records):]

        def value(record, name):
            metric = record["metrics"].get(name)
            return metric and metric["value"]

        rows = []
        for theirs, mine in zip(records, ours):
            connect = value(theirs, "http_req_connecting") or 0.0
            rows.append({
                "connect": connect,
                "ttft": (value(theirs, "time_to_first_token") - connect, mine["ttft_ms"]),
                # AIPerf's latency ends with the last token, ours with the body: hold like against like.
                "e2e": (value(theirs, "request_latency") - connect, mine["ttft_ms"] + mine["tpot_ms"] * (mine["output_tokens"] - 1)),
                "tokens": (value(theirs, "output_sequence_length"), mine["output_tokens"]),
            })
        for theirs, row in zip(records, rows):
            if not close(*row["ttft"]) or not close(*row["e2e"]):
                trace = {k: round(m["value"], 3) for k, m in theirs["metrics"].items() if k.startswith("http_req_") and isinstance(m["value"], float)}
                print(f"off  {row} {trace}", file=sys.stderr)
        table = ["| | requests | AIPerf median | proxy median | largest difference | within 2 ms or 2 % |", "|---|---|---|---|---|---|"]
        for name, label in (("ttft", "TTFT, ms"), ("e2e", "E2E to the last token, ms")):
            pairs = [r[name] for r in rows]
            within = sum(close(a, b) for a, b in pairs)
            medians = [sorted(p[i] for p in pairs)[len(pairs) // 2] for i in (0, 1)]
            worst = max((abs(a - b) for a, b in pairs))
            table.append(f"| {label} | {len(pairs)} | {medians[0]:.2f} | {medians[1]:.2f} | {worst:.2f} | {within} of {len(pairs)} |")
            if within < len(pairs):
                failures.append(f"{label}: {len(pairs) - within} of {len(pairs)} differ by more than 2 ms and 2 %")
        equal = sum(a == b for a, b in (r["tokens"] for r in rows))
        table.append(f"| output tokens | {len(rows)} | {sum(r['tokens'][0] for r in rows):.0f} in all | "
                     f"{sum(r['tokens'][1] for r in rows)} in all | {'0' if equal == len(rows) else 'see log'} | {equal} of {len(rows)} exactly |")
        if equal < len(rows):
            failures.append("output tokens differ")
        for server, ours_name, label in (("generation_tokens", "goodput_output_tokens_total", "output tokens, server's own counter"),
                                         ("prompt_tokens", "goodput_prompt_tokens_total", "prompt tokens, server's own counter")):
            if before[server] is None:
                continue
            theirs = after[server] - before[server]
            mine = proxy.counter(ours_name) - ours_before[ours_name]
            table.append(f"| {label} | | {theirs:.0f} | {mine:.0f} | {abs(theirs - mine):.0f} | {'yes' if theirs == mine else 'no'} |")
            if theirs != mine:
                failures.append(f"{label}: {theirs} and {mine}")
        print("\n".join(table))
        print(f"{calls - len(wrong)} passed, {len(failures)} failed")
    finally:
        proxy.stop()
    for failure in failures:
        print("FAILED:", failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Real processes on loopback: a scripted model server, proxies, Prometheus, Alertmanager. Free ports everywhere."""

import asyncio
import contextlib
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

MODEL = "demo-model"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url: str, timeout: float = 10, **headers) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(true, patience: float = 20.0, every: float = 0.05):
    """The first result of `true()` that holds; a failure when there is none in time."""
    end = time.monotonic() + patience
    while True:
        with contextlib.suppress(OSError):
            if result := true():
                return result
        assert time.monotonic() < end, f"not within {patience} s: {true}"
        time.sleep(every)


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)


class ModelServer:
    """Speaks just enough of vLLM's HTTP: a streamed chat completion as the request's x-test headers say, and /metrics.

    x-test-ttft and x-test-gap in seconds, x-test-tokens; x-test-hang sends nothing at all.
    """

    METRICS = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"

    def __init__(self, loop: Loop):
        self.server = loop.call(asyncio.start_server(self.serve, "127.0.0.1", 0)).result()
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                await reader.readexactly(int(headers.get("content-length", 0)))
                if head.startswith("GET "):
                    writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(self.METRICS)}\r\n\r\n{self.METRICS}".encode())
                    await writer.drain()
                    continue
                await self.stream(headers, writer)
        writer.close()

    async def stream(self, headers, writer):
        def event(**body):
            data = b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "model": MODEL, **body}).encode() + b"\n\n"
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))

        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        event(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}])
        await writer.drain()
        if "x-test-hang" in headers:
            await asyncio.sleep(120)
        await asyncio.sleep(float(headers.get("x-test-ttft", 0)))
        tokens = int(headers.get("x-test-tokens", 4))
        for n in range(tokens):
            if n:
                await asyncio.sleep(float(headers.get("x-test-gap", 0)))
            event(choices=[{"index": 0, "delta": {"content": " word"}}])
            await writer.drain()
        event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
        event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()


async def chat(port: int, **test) -> bytes:
    """One streamed chat completion over a connection of its own: all that came back."""
    body = json.dumps({"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
    extra = "".join(f"x-test-{name}: {value}\r\n" for name, value in test.items())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
        writer.write(head.encode() + body)
        return await reader.read(-1)
    finally:
        writer.close()


class Process:
    """A child that is told to stop at the end, and killed if it does not."""

    def __init__(self, command: list, log: pathlib.Path, **more):
        self.log = log
        self.child = subprocess.Popen([str(c) for c in command], stdout=log.open("w"), stderr=subprocess.STDOUT, **more)

    def stop(self, patience: float = 10) -> int:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(patience)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise AssertionError(f"did not stop: {self.log.read_text()[-2000:]}")


class Proxy(Process):
    """goodput-proxy with this configuration file's text; `port` is that of traffic, `admin` the admin URL."""

    def __init__(self, program: str, folder: pathlib.Path, name: str, upstream: int, config: str):
        file = folder / f"{name}.yaml"
        file.write_text(config)
        command = [program, "run", f"--config={file}", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0",
                   f"--upstream=http://127.0.0.1:{upstream}", "--log-format=json", "--log-level=info"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GOODPUT__") and k != "RUST_LOG"}
        super().__init__(command, folder / f"{name}.log", env=environment)
        line = until(lambda: next((t for t in self.log.read_text().splitlines() if '"admin"' in t and t.endswith("}")), None))
        fields = json.loads(line)
        self.name, self.port = name, int(fields["listen"].rsplit(":", 1)[1])
        self.target = fields["admin"]
        self.admin = f"http://{self.target}"
        until(lambda: get(f"{self.admin}/readyz")[0] == 200)

    def requests(self) -> list[dict]:
        found = json.loads(get(f"{self.admin}/requests")[1])
        return found["requests"] if isinstance(found, dict) else found


class Prometheus(Process):
    """A Prometheus that scrapes every second."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path, name: str, config: dict, flags=()):
        file = folder / f"{name}.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__([binary, f"--config.file={file}", f"--storage.tsdb.path={folder / name}", f"--web.listen-address=127.0.0.1:{port}",
                          "--log.level=warn", *flags], folder / f"{name}.log")
        try:
            until(lambda: get(f"{self.url}/-/ready")[0] == 200)
        except AssertionError:
            raise AssertionError(self.log.read_text()[-3000:])

    def api(self, path: str, **parameters):
        code, text = get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}")
        answer = json.loads(text)
        assert code == 200 and answer["status"] == "success", f"{parameters}: {text[:500]}"
        return answer["data"]

    def query(self, expression: str, at: float | None = None) -> list[tuple[dict, float]]:
        parameters = {"query": expression} | ({"time": at} if at else {})
        result = self.api("query", **parameters)
        if result["resultType"] == "scalar":
            return [({}, float(result["result"][1]))]
        return [(s["metric"], float(s["value"][1]) if "value" in s else float(s["histogram"][1]["count"])) for s in result["result"]]

    def value(self, expression: str, at: float | None = None) -> float:
        found = self.query(expression, at)
        assert len(found) == 1, f"{expression}: {found}"
        return found[0][1]

    def alerts(self) -> dict[str, str]:
        """State by name, the strongest where several of a name are active."""
        states: dict[str, str] = {}
        for alert in self.api("alerts")["alerts"]:
            name = alert["labels"]["alertname"]
            if states.get(name) != "firing":
                states[name] = alert["state"]
        return states


class Webhook:
    """Receives Alertmanager's notifications: `heard` is a list of (alert, status)."""

    def __init__(self):
        heard = self.heard = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                heard.extend((alert["labels"]["alertname"], alert["status"]) for alert in body["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

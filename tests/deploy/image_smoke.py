#!/usr/bin/env python3
"""Runs the program of an unpacked image as Kubernetes would: user 65532, a read-only root, and in it only what a container engine adds
(/etc/hosts). As root.

Started in a mount namespace of its own, with a copy of the image as a read-only bind mount and the root of the process.
"""

import http.server
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request


class ModelServer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"hi")

    def log_message(self, *_):
        pass


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ready(port: int) -> bool:
    try:
        return get(port, "/readyz")[0] == 200
    except OSError:
        return False


def main(image: str) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ModelServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    listen, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        shutil.copy(f"{image}/goodput-proxy", root)
        (pathlib.Path(root) / "etc").mkdir()
        (pathlib.Path(root) / "etc/hosts").write_text("127.0.0.1 model-server\n")
        command = (
            f"mount --bind '{root}' '{root}' && mount -o remount,ro,bind '{root}' && "
            f"exec chroot --userspec=65532:65532 '{root}' /goodput-proxy run --listen=127.0.0.1:{listen} --admin=127.0.0.1:{admin} "
            f"--upstream=http://model-server:{server.server_address[1]} --slo=ttft=500ms"
        )
        environment = {"PATH": os.environ["PATH"], "GOODPUT__DRAIN__DELAY": "off"}
        process = subprocess.Popen(["unshare", "--mount", "sh", "-c", command], env=environment)
        try:
            end = time.monotonic() + 10
            while not ready(admin):
                assert time.monotonic() < end and process.poll() is None, "never became ready"
                time.sleep(0.05)
            assert "Uid:\t65532\t65532" in pathlib.Path(f"/proc/{process.pid}/status").read_text()
            assert get(admin, "/livez")[0] == 200
            # A name: the static C library brings its own resolver.
            assert get(listen, "/") == (200, "hi")
            assert "goodput_build_info" in get(admin, "/metrics")[1]
            assert get(admin, "/drain") == (200, "drained\n")
            assert get(admin, "/readyz")[0] == 503
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0, process.returncode
        finally:
            process.kill()


if __name__ == "__main__":
    main(sys.argv[1])

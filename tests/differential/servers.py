"""Starts programs that listen on a port of 127.0.0.1: goodput-proxy and nginx."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "target/release/goodput-proxy"


class Server:
    def __init__(self, name, command, port, folder):
        self.name, self.port = name, port
        self.log = open(folder / f"{name}.log", "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"{name} does not start: see {folder}/{name}.log")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def goodput(name, binary, relay, upstream_port, folder):
    """goodput-proxy before `upstream_port`; `relay`: `true` or `false`, the short way or the full server."""
    port, config = free_port(), folder / f"{name}.yaml"
    config.write_text(
        f"listen: 127.0.0.1:{port}\nadmin: 127.0.0.1:0\nrelay: {relay}\nupstream: {{ url: 'http://127.0.0.1:{upstream_port}' }}\n"
        "drain: { delay: off, timeout: 1s }\n"
    )
    return Server(name, [binary, "--config", config, "--log-level", "warn"], port, folder)


def nginx(name, upstream_port, directives, folder):
    """nginx before `upstream_port`, with nothing but its defaults and `directives` in its location."""
    port, config = free_port(), folder / f"{name}.conf"
    temp = "".join(f"{kind}_temp_path {folder}/{name}-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config.write_text(
        f"""daemon off; master_process off; pid {folder}/{name}.pid; error_log {folder}/{name}.err;
events {{ }}
http {{
  access_log off; {temp} large_client_header_buffers 4 64k;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{upstream_port}; {directives}
    }}
  }}
}}
"""
    )
    return Server(name, ["nginx", "-c", config], port, folder)


def installed(program, package):
    """Whether `program` is there; as root, the Debian package is installed when it is not."""
    if shutil.which(program) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        subprocess.run(command, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, **quiet)
    return shutil.which(program) is not None

#!/usr/bin/env python3
"""Runs the program of an unpacked image as Kubernetes would: user 65532, root file system read-only, nothing else in it. As root.

Started in a mount namespace of its own, with the image as a read-only bind mount and the root of the process.
"""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

LISTEN, ADMIN = "127.0.0.1:18080", "127.0.0.1:19464"


def get(path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{ADMIN}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def main(root: str) -> None:
    command = (
        f"mount --bind '{root}' '{root}' && mount -o remount,ro,bind '{root}' && "
        f"exec chroot --userspec=65532:65532 '{root}' /goodput-proxy run --listen={LISTEN} --admin={ADMIN} "
        "--upstream=http://127.0.0.1:9 --slo=ttft=500ms"
    )
    environment = {"PATH": os.environ["PATH"], "GOODPUT__DRAIN__DELAY": "off"}
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", command], env=environment)
    try:
        for _ in range(100):
            try:
                if get("/readyz")[0] == 200:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        else:
            raise SystemExit("never became ready")
        status = open(f"/proc/{process.pid}/status").read()
        assert "Uid:\t65532\t65532" in status, status
        assert get("/livez")[0] == 200
        assert "goodput_build_info" in get("/metrics")[1]
        assert get("/drain") == (200, "drained\n")
        assert get("/readyz")[0] == 503
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0, process.returncode
    finally:
        process.kill()


if __name__ == "__main__":
    main(sys.argv[1])

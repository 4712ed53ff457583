"""What happens to a live stream when a pod is deleted: the drain hook, then SIGTERM, as the kubelet sends them."""

import asyncio
import threading
import time

import pytest

from live import Loop, ModelServer, Proxy, chat, get, until

CONFIG = "slo: ttft=1s\ndrain: { delay: 2500ms, timeout: 4s }\n"


@pytest.fixture(scope="module")
def loop():
    return Loop()


@pytest.fixture
def proxy(loop, program, tmp_path):
    proxy = Proxy(program, tmp_path, "proxy", ModelServer(loop).port, CONFIG)
    yield proxy
    proxy.child.kill()
    proxy.child.wait()


class Hook(threading.Thread):
    """The preStop hook: GET /drain, which answers when the container may be stopped."""

    def __init__(self, proxy):
        super().__init__()
        self.proxy = proxy
        self.start()

    def run(self):
        self.answer = get(f"{self.proxy.admin}/drain", timeout=30)
        self.ended = time.monotonic()


def in_flight(proxy) -> int:
    text = get(f"{proxy.admin}/metrics")[1]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in text.splitlines() if line.startswith("goodput_in_flight{"))


def started(loop, proxy, **test):
    stream = loop.call(chat(proxy.port, **test))
    until(lambda: in_flight(proxy) == 1)
    return stream


def test_a_stream_outlives_the_hook_and_the_server_is_told_afterwards(loop, proxy):
    stream = started(loop, proxy, tokens=41, gap=0.1)  # 4 s, longer than the delay
    begun = time.monotonic()
    hook = Hook(proxy)
    until(lambda: get(f"{proxy.admin}/readyz")[0] == 503, 2)
    # While load balancers still send: served as ever.
    assert loop.call(chat(proxy.port, tokens=2)).result(5).endswith(b"0\r\n\r\n")
    assert time.monotonic() - begun < 2.5, "that request was not sent within the delay: the machine is too slow for this test"
    assert hook.is_alive()
    reply = stream.result(10)
    stream_ended = time.monotonic()
    assert reply.count(b" word") == 41 and reply.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    hook.join(5)
    assert hook.answer == (200, "drained\n")
    # The hook held the model server's SIGTERM back until the stream had ended, and not for long after.
    assert -0.2 < hook.ended - stream_ended < 1
    assert get(f"{proxy.admin}/livez")[0] == 200
    # Native sidecar: SIGTERM comes last, and nothing is left to wait for.
    begun = time.monotonic()
    assert proxy.stop() == 0
    assert time.monotonic() - begun < 2


def test_a_hook_without_streams_takes_the_delay_alone(proxy):
    begun = time.monotonic()
    hook = Hook(proxy)
    hook.join(10)
    assert hook.answer == (200, "drained\n")
    assert 2.4 < hook.ended - begun < 6


def test_a_stream_without_end_holds_the_hook_until_the_timeout(loop, proxy):
    stream = started(loop, proxy, hang=1)
    begun = time.monotonic()
    hook = Hook(proxy)
    hook.join(15)
    assert hook.answer == (503, "time is up, 1 still in flight\n")
    assert 6.3 < hook.ended - begun < 12
    assert proxy.stop() == 0
    assert b"[DONE]" not in stream.result(5)
    assert "cut" in proxy.log.read_text()


def test_a_classic_sidecar_is_told_at_once_and_finishes_its_streams(loop, proxy):
    stream = started(loop, proxy, tokens=36, gap=0.1)  # 3.5 s, longer than the delay
    begun = time.monotonic()
    proxy.child.terminate()
    assert proxy.child.wait(10) == 0
    assert time.monotonic() - begun > 3
    assert stream.result(1).endswith(b"0\r\n\r\n")


def test_after_the_delay_nothing_new_is_taken(loop, proxy):
    stream = started(loop, proxy, tokens=61, gap=0.1)
    Hook(proxy)
    time.sleep(3.5)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError, AssertionError)):
        assert b" word" in loop.call(chat(proxy.port)).result(5)
    assert stream.result(10).endswith(b"0\r\n\r\n")

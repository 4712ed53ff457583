"""Behind and in front of nginx: tokens come one by one, at no delay worth the name. `../differential/buffering` does it."""

import subprocess

import pytest
from conftest import ROOT

SKIPPED = 77


def test_tokens_come_one_by_one_through_nginx_and_the_fields_that_steer_it_pass(program):
    script = ROOT / "tests/differential/buffering"
    done = subprocess.run([script, program], capture_output=True, text=True, timeout=300)
    if done.returncode == SKIPPED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr

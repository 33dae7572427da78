"""This module checks how many compilers may run at once when several have a say."""

from __future__ import annotations

import os

import pytest

from cudabuild.host import Environment
from cudabuild.ninja.limit import job_limit


@pytest.mark.parametrize(
    ("configured", "from_cargo", "jobs"),
    [
        (None, "4", 4),
        (2, "4", 2),
        (8, "4", 4),  # cargo -j4: never more
        (8, None, 8),  # by hand: what the user says
        (1, None, 1),
        (None, None, None),
        (None, "0", None),
        (None, "", None),
        (None, "many", None),
        (None, "-3", None),
        (None, "²", None),
        (None, "9" * 5000, None),
    ],
)
def test_smallest_of_the_limits_holds(configured: int | None, from_cargo: str | None, jobs: int | None) -> None:
    processors = len(os.sched_getaffinity(0))
    limit = job_limit(configured, Environment({} if from_cargo is None else {"NUM_JOBS": from_cargo}))
    assert limit.jobs == (processors if jobs is None else jobs)
    assert limit.jobserver is None


def test_users_own_limit_holds_beside_a_jobserver() -> None:
    read, write = os.pipe()
    limit = job_limit(2, Environment({"NUM_JOBS": "8", "CARGO_MAKEFLAGS": f"--jobserver-auth={read},{write}"}))
    assert limit.jobserver is not None
    assert limit.pool == 2
    assert job_limit(None, Environment({})).pool is None
    os.close(read)
    os.close(write)

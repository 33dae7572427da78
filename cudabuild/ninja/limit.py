"""This module decides how many compilers may run at once."""

from __future__ import annotations

import os
import re

import msgspec

from cudabuild.host import Environment
from cudabuild.ninja.jobserver import Jobserver, find


class Limit(msgspec.Struct, frozen=True):
    """`jobs` holds where there is no jobserver; `pool` is the user's own limit, which holds beside a jobserver's."""

    jobs: int
    pool: int | None
    jobserver: Jobserver | None


def job_limit(configured: int | None, env: Environment) -> Limit:
    """Cargo's job limit by its jobserver, else by NUM_JOBS, else one job a processor; never more than what is configured."""
    from_cargo = env.peek("NUM_JOBS") or ""
    jobs = int(from_cargo) if re.fullmatch("[1-9][0-9]{0,8}", from_cargo) else len(os.sched_getaffinity(0))
    return Limit(min(jobs, configured) if configured and from_cargo else configured or jobs, configured, find(env))

"""This module is `cudabuild doctor`: every check in its order, none of which can break the others, and the verdict.

It needs nothing installed: whatever is missing, broken or hangs is a finding. The exit code is 2 when the crate's
configuration is wrong (a build would stop there first), else 3 when the tools or the environment cannot build, else 0.
The JSON is described in cudabuild.report.findings.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from cudabuild.checks import crate, environment, gpu, toolkit, tools
from cudabuild.checks.finding import Finding, Seen, Severity
from cudabuild.errors import ConfigError, CudabuildError, Interrupted, ToolchainError
from cudabuild.host import Environment
from cudabuild.report import findings as report


class Check(msgspec.Struct, frozen=True):
    """`id` and `subject` are those of its finding when something stops it; `broken` is what that means for builds."""

    id: str
    subject: str
    look: Callable[[Seen], Iterator[Finding]]
    broken: Severity = "error"


CHECKS = (
    Check("cudabuild", "cudabuild", tools.python),
    Check("crate", "crate", crate.configuration),
    Check("nvcc", "nvcc", toolkit.nvcc),
    Check("host-compiler", "host compiler", toolkit.host_compiler),
    Check("toolkit-parts", "toolkit parts", toolkit.parts),
    Check("cudart", "CUDA runtime", toolkit.cudart),
    Check("gpu-archs", "GPU archs", toolkit.archs),
    Check("trial-compile", "trial compile", toolkit.trial),
    Check("ninja", "ninja", tools.ninja),
    Check("ar", "ar", tools.ar),
    Check("cargo", "cargo", tools.cargo, "warning"),
    Check("rustc", "rustc", tools.rustc, "warning"),
    Check("gpu", "GPU", gpu.gpu, "warning"),
    Check("environment", "environment", environment.environment, "warning"),
    Check("crate-sources", "sources", crate.sources),
    Check("crate-arch", "arch", crate.arch),
    Check("crate-flags", "flags", crate.flags),
    Check("crate-build-script", "build script", crate.build_script),
    Check("crate-output", "output", crate.output),
)


def run(env: Environment, *, as_json: bool) -> int:
    """Look at everything and print it; the exit code."""
    try:
        cwd = os.getcwd()
    except OSError as error:
        raise ConfigError(
            f"the current folder cannot be used: {error.strerror}", "change into one that exists"
        ) from None
    findings = examine(env, cwd)
    code = exit_code(findings)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # paths and compilers' words may not fit the terminal's encoding
    if as_json:
        sys.stdout.write(report.encode(findings, code))
    else:
        report.show(findings, code)
    sys.stdout.flush()
    return code


def examine(env: Environment, cwd: str, patience: float = 10.0, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """What each check finds. A tool has `patience` seconds to answer; each takes a few hundredths."""
    with _scratch() as scratch, ThreadPoolExecutor(1) as aside:
        seen = Seen(env, cwd, scratch, aside.submit(gpu.look, env, patience).result, patience)
        return [finding for check in checks for finding in _guarded(check, seen)]


def exit_code(findings: list[Finding]) -> int:
    wrong = [finding.id for finding in findings if finding.severity == "error"]
    if any(name.startswith("crate") for name in wrong):
        return 2
    return 3 if wrong else 0


def _scratch() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="cudabuild-doctor-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ToolchainError(
            f"no temporary folder can be made: {error.strerror}", "free some space, or set TMPDIR"
        ) from None


def _guarded(check: Check, seen: Seen) -> Iterator[Finding]:
    """What the check says, and what stopped it."""
    try:
        yield from check.look(seen)
    except Interrupted:
        raise
    except CudabuildError as error:
        yield Finding(check.id, check.broken, check.subject, "", error.message, error.hint)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        yield Finding(check.id, check.broken, check.subject, "", f"{what}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 (a check meets machines that nobody thought of; the others still count)
        yield Finding(
            check.id, check.broken, check.subject, "", f"this check broke, by a mistake of cudabuild: {error!r}"
        )

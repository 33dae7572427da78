"""This module makes the report out of what a build knows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cudabuild.cache.decisions import Decision
from cudabuild.compile import Compiled
from cudabuild.config.schema import BuildConfig
from cudabuild.errors import CudabuildError
from cudabuild.nvcc.toolchain import Toolchain
from cudabuild.outdir import OutDir
from cudabuild.report.schema import Action, BuildReport, ErrorReport, Toolkit, UnitReport


def report(
    *, crate: str, out: OutDir, config: BuildConfig | None, toolchain: Toolchain | None, decisions: Sequence[Decision],
    compiled: Sequence[Compiled], warnings: Sequence[str],
    error: CudabuildError | None, milliseconds: int,
) -> BuildReport:  # fmt: skip
    results = {result.decision.unit.name: result for result in compiled}
    units = tuple(_unit(decision, results.get(decision.unit.name)) for decision in decisions)
    counts = {action: sum(unit.action == action for unit in units) for action in ("compiled", "restored", "kept", "failed")}
    return BuildReport(
        crate=crate, library=config.name if config else "", archive=out.archive(config.name) if config else "",
        outcome="failed" if error else "done",
        toolkit=_toolkit(toolchain) if toolchain else None,
        archs=tuple(label for arch in toolchain.archs for label in arch.labels()) if toolchain else (),
        units=units, **counts,
        warnings=(*(toolchain.warnings if toolchain else ()), *warnings), milliseconds=milliseconds,
        error=ErrorReport(message=error.message, hint=error.hint, exit_code=error.exit_code) if error else None,
    )  # fmt: skip


def _unit(decision: Decision, result: Compiled | None) -> UnitReport:
    source, reason = decision.unit.source, decision.reason
    changes = tuple(msgspec.structs.replace(change, name=change.shown) for change in decision.changes)
    if result is not None:
        action: Action = "compiled" if result.made is not None else "failed"
        output = result.outcome.output
        if result.problem:
            output += f"cudabuild: {result.problem}\n"
        if result.moved:
            output += f"cudabuild: {result.moved} kept changing while it was being compiled\n"
        return UnitReport(
            source=source, action=action, reason=reason, changes=changes,
            milliseconds=result.outcome.milliseconds, output=output,
        )  # fmt: skip
    if decision.action in ("keep", "restore") and decision.made is not None:
        return UnitReport(
            source=source, action="kept" if decision.action == "keep" else "restored", reason=reason, changes=changes,
            milliseconds=decision.made.milliseconds, output=decision.made.output,
        )  # fmt: skip
    return UnitReport(source=source, action="skipped", reason=reason, changes=changes, milliseconds=0, output="")


def _toolkit(toolchain: Toolchain) -> Toolkit:
    return Toolkit(
        nvcc=toolchain.nvcc, origin=toolchain.origin, version=toolchain.version,
        host_compiler=toolchain.host_compiler, host_origin=toolchain.host_origin,
    )  # fmt: skip

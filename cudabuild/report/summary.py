"""This module puts a report into words."""

from __future__ import annotations

from cudabuild.report.schema import BuildReport, UnitReport


def one_line(report: BuildReport) -> str:
    """What the build did and why: `compiled msm.cu for sm_90 (ff/field.cuh changed), kept 11 of 12 units, 3.2 s`."""
    total = len(report.units)
    compiled = [unit for unit in report.units if unit.action == "compiled"]
    failed = [unit for unit in report.units if unit.action == "failed"]
    parts = []
    if failed:
        parts.append(f"{_names(failed)} failed")
    if compiled:
        parts.append(f"compiled {_names(compiled)} for {'+'.join(report.archs)} ({_reasons(compiled)})")
    if report.restored:
        parts.append(f"restored {_share(report.restored, total)} from the cache")
    if report.kept:
        parts.append(f"kept {_share(report.kept, total)}")
    if report.error is not None and not failed:
        parts.append("failed")
    return f"{', '.join(parts)}, {report.milliseconds / 1000:.1f} s"


def _share(number: int, total: int) -> str:
    return f"all {total} units" if number == total else f"{number} of {total} units"


def unit_line(unit: UnitReport) -> str:
    """One unit for people."""
    seconds = f" {unit.milliseconds / 1000:6.1f} s" if unit.action == "compiled" else " " * 9
    return f"  {unit.action:<8}{seconds}  {unit.source}  ({unit.reason})"


def _names(units: list[UnitReport]) -> str:
    if len(units) <= 2:
        return " and ".join(unit.source.rpartition("/")[2] for unit in units)
    return f"{len(units)} units"


def _reasons(units: list[UnitReport]) -> str:
    reasons = list(dict.fromkeys(unit.reason for unit in units))
    return reasons[0] if len(reasons) == 1 else f"{reasons[0]}, and other reasons"

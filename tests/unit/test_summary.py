"""This module checks a report's words: one line that says what was done and why."""

from __future__ import annotations

import msgspec
import pytest

from cudabuild.report.schema import Action, BuildReport, ErrorReport, UnitReport, encode
from cudabuild.report.summary import one_line, unit_line


def unit(source: str, action: Action, reason: str = "up to date") -> UnitReport:
    return UnitReport(source=source, action=action, reason=reason, changes=(), milliseconds=1200, output="")


def report(*units: UnitReport, error: str = "") -> BuildReport:
    counts = {action: sum(one.action == action for one in units) for action in ("compiled", "kept", "failed")}
    return BuildReport(
        crate="gpu-prover", outcome="failed" if error else "done", archs=("sm_90",), units=units, milliseconds=3210,
        error=ErrorReport(message=error, hint="", exit_code=1) if error else None, **counts,
    )  # fmt: skip


KEPT = [unit(f"k/{number}.cu", "kept") for number in range(11)]
CHANGED = unit("k/msm.cu", "compiled", "ff/field.cuh changed")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (report(CHANGED, *KEPT), "compiled msm.cu for sm_90 (ff/field.cuh changed), kept 11 of 12 units, 3.2 s"),
        (report(*KEPT), "kept all 11 units, 3.2 s"),
        (report(CHANGED), "compiled msm.cu for sm_90 (ff/field.cuh changed), 3.2 s"),
        (
            report(CHANGED, unit("k/ntt.cu", "compiled", "ff/field.cuh changed")),
            "compiled msm.cu and ntt.cu for sm_90 (ff/field.cuh changed), 3.2 s",
        ),
        (
            report(CHANGED, unit("a.cu", "compiled", "a.cu changed"), unit("b.cu", "compiled", "b.cu changed")),
            "compiled 3 units for sm_90 (ff/field.cuh changed, and other reasons), 3.2 s",
        ),
        (report(unit("k/msm.cu", "failed", "x"), *KEPT, error="1 of 12"), "msm.cu failed, kept 11 of 12 units, 3.2 s"),
        (report(error="no nvcc"), "failed, 3.2 s"),
        (report(CHANGED, error="ar failed"), "compiled msm.cu for sm_90 (ff/field.cuh changed), failed, 3.2 s"),
    ],
)
def test_line_says_what_was_done_and_why(given: BuildReport, line: str) -> None:
    assert one_line(given) == line


def test_failure_is_named_before_all_else() -> None:
    assert one_line(report(CHANGED, unit("bad.cu", "failed", "x"), *KEPT, error="x")).startswith("bad.cu failed, ")


@pytest.mark.parametrize("archs", [(), ("sm_80", "compute_90")])
def test_line_is_one_line(archs: tuple[str, ...]) -> None:
    assert "\n" not in one_line(msgspec.structs.replace(report(CHANGED), archs=archs))


@pytest.mark.parametrize("action", ["compiled", "kept", "failed", "skipped"])
def test_unit_has_a_line_with_its_action_and_reason(action: Action) -> None:
    line = unit_line(unit("k/msm.cu", action, "why"))
    assert action in line and "k/msm.cu" in line and "why" in line
    assert ("1.2 s" in line) is (action == "compiled"), "a time only for a compile that was just run"


def test_lines_of_units_align() -> None:
    places = {
        unit_line(unit("k/msm.cu", action, "why")).index("k/msm.cu")
        for action in ("compiled", "kept", "failed", "skipped")
    }
    assert len(places) == 1


def test_report_as_json_is_read_back_as_it_was() -> None:
    data = encode(report(CHANGED, *KEPT))
    assert data.endswith(b"}\n")
    assert msgspec.json.decode(data, type=BuildReport) == report(CHANGED, *KEPT)
    assert msgspec.json.decode(data)["schema"] == 1

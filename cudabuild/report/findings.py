"""This module puts the findings of `cudabuild doctor` into words for people and into JSON.

The JSON is one object:

    {"schema": 1, "exit_code": 0, "findings": [
      {"id": "nvcc", "severity": "ok", "subject": "nvcc", "found": "13.0.88, /usr/local/cuda/bin/nvcc (from PATH)",
       "problem": "", "cure": ""}, ...]}

`severity` is ok, note, warning or error; `id` names the check and does not change between releases, as the words may.
One id may come several times (nvcc-other, environment). A subject that cannot be looked at for want of another is absent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import msgspec

from cudabuild.checks.finding import Finding, Severity

_MARKS: dict[Severity, str] = {"ok": "ok", "note": "--", "warning": "! ", "error": "!!"}
_STYLES: dict[Severity, str] = {"ok": "green", "note": "dim", "warning": "yellow", "error": "bold red"}
_ORDER: tuple[Severity, ...] = ("ok", "note", "warning", "error")

Line = tuple[Severity | None, str]
"""The severity that colours it, and the text."""


def encode(findings: Sequence[Finding], exit_code: int) -> str:
    listed = [
        {name: _printable(text) for name, text in msgspec.structs.asdict(finding).items()} for finding in findings
    ]
    document = {"schema": 1, "exit_code": exit_code, "findings": listed}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def show(findings: Sequence[Finding], exit_code: int) -> None:
    """On stdout; with colours on a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.write("".join(f"{text}\n" for _, text in lines(findings, exit_code)))
        return
    from rich.console import Console

    console = Console()
    for severity, text in lines(findings, exit_code):
        console.print(
            text, style=_STYLES[severity] if severity else None, markup=False, highlight=False, soft_wrap=True
        )


def lines(findings: Sequence[Finding], exit_code: int) -> Iterator[Line]:
    """A line a subject with its mark, then each problem with its cure, then the verdict."""
    subjects = list(dict.fromkeys(finding.subject for finding in findings))
    width = max(map(len, subjects), default=0)
    for subject in subjects:
        own = [finding for finding in findings if finding.subject == subject]
        worst = max((finding.severity for finding in own), key=_ORDER.index)
        found = [finding.found for finding in own if finding.found] or ["see below"]
        yield worst, f"{_MARKS[worst]}  {subject:<{width}}  {found[0]}"
        for text in found[1:]:
            yield worst, f"    {'':<{width}}  {text}"
    problems = [finding for finding in findings if finding.problem]
    for finding in sorted(problems, key=lambda finding: -_ORDER.index(finding.severity)):
        yield None, ""
        yield finding.severity, f"{finding.severity}: " + finding.problem.replace("\n", "\n  ")
        if finding.cure:
            yield None, f"  cure: {finding.cure}"
    yield None, ""
    yield _verdict(findings, exit_code)


def _printable(text: str) -> str:
    """A path's bytes that are no UTF-8 cannot be in JSON."""
    return text.encode("utf-8", "backslashreplace").decode()


def _verdict(findings: Sequence[Finding], exit_code: int) -> Line:
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    if exit_code == 2:
        return "error", f"This crate cannot be built as it is configured: {_count(errors, 'error')}."
    if exit_code == 3:
        return "error", f"No build can run here yet: {_count(errors, 'error')}."
    if warnings:
        return "warning", f"Builds can run here, with {_count(warnings, 'warning')}."
    return "ok", "Builds can run here."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"

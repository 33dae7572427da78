"""This module writes a build's result to the terminal, to cargo, or as JSON.

stdout carries one thing: cargo's lines, the JSON report, or the summary. What the compilers said goes to stderr, failures first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cudabuild.cargo.directives import render
from cudabuild.ninja.process import Progress
from cudabuild.pipeline import Build
from cudabuild.report import schema, summary
from cudabuild.report.schema import UnitReport


def for_cargo(build: Build, rust_version: str | None) -> None:
    """Directives on stdout, all else on stderr, which cargo shows when the script fails and with -vv."""
    _diagnostics(build)
    for unit in build.report.units:
        print(summary.unit_line(unit), file=sys.stderr)
    print(f"{build.report.crate}: {summary.one_line(build.report)}", file=sys.stderr)
    _error(build)
    sys.stderr.flush()
    _write(render(build.directives, rust_version).encode("utf-8", "surrogateescape"))


def for_tools(build: Build) -> None:
    _diagnostics(build)
    _error(build)
    _write(schema.encode(build.report))


def for_people(build: Build) -> None:
    _diagnostics(build)
    for text in build.report.warnings:
        print(f"cudabuild: warning: {text}", file=sys.stderr)
    for unit in build.report.units:
        print(summary.unit_line(unit))
    if build.report.units:
        print(f"{build.report.crate}: {summary.one_line(build.report)}")
    if build.error is None:
        print(f"  -> {build.report.archive}")
    sys.stdout.flush()
    _error(build)


def _write(data: bytes) -> None:
    """To stdout, which is for programs: UTF-8 whatever the locale is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _diagnostics(build: Build) -> None:
    """The compilers' own words, whole: of the units that failed, then the warnings of those that were compiled, here or elsewhere."""
    for action in ("failed", "compiled", "restored"):
        for unit in build.report.units:
            if unit.action == action and unit.output.strip():
                print(f"--- {unit.source}: {_heading(unit)}", file=sys.stderr)
                sys.stderr.write(unit.output if unit.output.endswith("\n") else unit.output + "\n")


def _heading(unit: UnitReport) -> str:
    return "failed" if unit.action == "failed" else f"{unit.action}, with messages"


def _error(build: Build) -> None:
    if build.error is not None:
        print(f"cudabuild: error: {build.error}", file=sys.stderr)


@contextmanager
def progress(*, hidden: bool) -> Iterator[Progress]:
    """A bar while compilers run, on a terminal; plain lines elsewhere; nothing where stderr is cargo's."""
    if hidden:
        yield lambda _done, _total, _name: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        columns = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        with Bar(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name)
    else:
        yield lambda done, total, name: print(f"[{done}/{total}] {name}", file=sys.stderr, flush=True)

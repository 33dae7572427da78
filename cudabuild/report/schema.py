"""This module is the report of a build as data; `--json` prints it and <out>/cudabuild/report.json keeps the last one.

Fields may be added under one schema number; a field that changes its meaning or goes away raises it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cudabuild.cache.keys import KeyChange

SCHEMA = 1

Action = Literal["compiled", "restored", "kept", "failed", "skipped"]


class UnitReport(msgspec.Struct, frozen=True, kw_only=True):
    """`restored`: its object came from the cache; `failed`: its compile ended with an error; `skipped`: it had to be compiled but the build ended before."""

    source: str
    action: Action
    reason: str
    changes: tuple[KeyChange, ...]
    milliseconds: int
    """Of the compile that made the object, also when it was an earlier one."""
    output: str
    """All that the compiler printed."""


class Toolkit(msgspec.Struct, frozen=True, kw_only=True):
    nvcc: str
    origin: str
    version: str
    host_compiler: str
    host_origin: str


class ErrorReport(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    hint: str
    exit_code: int


class BuildReport(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    crate: str = ""
    library: str = ""
    archive: str = ""
    outcome: Literal["done", "failed"]
    toolkit: Toolkit | None = None
    archs: tuple[str, ...] = ()
    units: tuple[UnitReport, ...] = ()
    compiled: int = 0
    restored: int = 0
    kept: int = 0
    failed: int = 0
    warnings: tuple[str, ...] = ()
    milliseconds: int = 0
    """Wall time from the start of the command."""
    error: ErrorReport | None = None


def encode(report: BuildReport) -> bytes:
    """JSON, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"

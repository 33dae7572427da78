"""This module decides, for each unit, whether its object is what a compile would make now."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudabuild.cache import reading
from cudabuild.cache.keys import KeyChange, Request, request_changes
from cudabuild.cache.reading import Disk
from cudabuild.cache.record import Made
from cudabuild.graph.units import Unit
from cudabuild.roots import Roots


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one unit, and why. `changes` is empty when there was nothing to compare with."""

    unit: Unit
    flags: tuple[str, ...]
    """The request's flags as nvcc gets them, with real paths."""
    request: Request
    action: Literal["keep", "restore", "compile"]
    reason: str
    changes: tuple[KeyChange, ...] = ()
    made: Made | None = None
    """The earlier object, kept or not."""


def decide(
    unit: Unit, flags: tuple[str, ...], request: Request, made: Made | None, object_path: str, disk: Disk, roots: Roots
) -> Decision:
    """Keep the object of the last build exactly when its key still holds and its bytes are the ones that were made."""

    def decision(action: Literal["keep", "restore", "compile"], reason: str, changes: tuple[KeyChange, ...] = ()) -> Decision:
        return Decision(
            unit=unit, flags=flags, request=request, action=action, reason=reason, changes=changes, made=made
        )

    if made is None:
        return decision("compile", "first build here")
    changes = request_changes(made.request, request) + reading.changes(made.reading, disk, roots.real)
    if changes:
        return decision("compile", summary(changes), changes)
    now = disk.digest(object_path)
    if now != made.object:
        return decision("compile", "its object is missing" if now is None else "its object was altered")
    return decision("keep", "up to date")


def summary(changes: tuple[KeyChange, ...]) -> str:
    """The changes in a few words: the first, and how many more."""
    first = str(changes[0])
    return first if len(changes) == 1 else f"{first}, and {len(changes) - 1} more"

"""This module is the identity of a unit's object: everything that decides its bytes, and nothing else.

A key has two levels. The Request is known before a compiler runs: the flags, the environment, the tools, the source's path. The
Reading is what the compiler then did: the files it read, the paths at which a new file would have been read instead, the files
whose mere existence was asked for. An object is fresh when its request is the one made now and its reading is still true.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cudabuild.files import digest_text

# Goes up when the same words in a record come to mean something else; old records are then never matched.
KEY_FORMAT = 4


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Level one. Paths inside are logical (`@crate/…`), so that a second checkout makes the same request."""

    format: int = KEY_FORMAT
    source: str
    flags: tuple[str, ...]
    """nvcc's arguments in order, without the input, the outputs and the dependency file."""
    environment: tuple[tuple[str, str], ...]
    """The variables that nvcc and the host compiler read and that are set, by name."""
    tools: tuple[tuple[str, str], ...]
    """Name and content digest of every tool that takes part."""
    bound_to: tuple[str, ...] = ()
    """The real folders that the object may hold the names of: such an object is good in one place only."""
    commands: str
    """Digest of the commands that nvcc says it would run: what a wrapper script adds shows here."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Level two. Logical paths."""

    files: tuple[tuple[str, str], ...]
    """Path and content digest of each file read."""
    absent: tuple[str, ...] = ()
    """Paths at which nothing may appear: a header there would be found first."""
    present: tuple[str, ...] = ()
    """Paths that `__has_include` found without reading them."""
    untracked: tuple[str, ...] = ()
    """Why this reading cannot be complete, e.g. an .incbin; such an object is never fresh."""
    library: str = ""
    """The only library that the object may go into, if it holds hidden names; see elf.holds_hidden_names."""
    unshared: tuple[str, ...] = ()
    """Why the object is of its moment or its place, e.g. a `__TIME__`: good as long as it lies there, and for nobody else."""


class KeyChange(msgspec.Struct, frozen=True):
    """One difference between the request or reading that made an object and those of now."""

    kind: Literal["file", "absent", "present", "flags", "environment", "tool", "commands", "place", "format", "untracked"]
    name: str
    before: str | None = None
    after: str | None = None

    @property
    def shown(self) -> str:
        """The name for people: what lies in the crate, from there."""
        return self.name.removeprefix("@crate/")

    def __str__(self) -> str:
        match self.kind:
            case "file":
                return f"{self.shown} {'is gone' if self.after is None else 'changed'}"
            case "absent":
                return f"{self.shown} appeared"
            case "present":
                return f"{self.shown} is gone"
            case "flags":
                return f"flags changed: {self.before} -> {self.after}"
            case "environment":
                return f"{self.name} {_described(self.before)} -> {_described(self.after)}"
            case "tool":
                return f"{self.name} changed"
            case "commands":
                return "nvcc would run other commands"
            case "place":
                return "built in another folder, and the object holds paths"
            case "format":
                return "made by another version of cudabuild"
            case "untracked":
                return self.name


def key(request: Request, reading: Reading) -> str:
    """The object's identity: a digest of both levels in canonical JSON."""
    return digest_text(msgspec.json.encode((request, reading)).decode())


def request_digest(request: Request) -> str:
    """The identity of a request, under which the readings of its compiles are found."""
    return digest_text(msgspec.json.encode(request).decode())


def request_changes(before: Request, after: Request) -> tuple[KeyChange, ...]:
    """What differs between two requests for one source; empty exactly when they are equal."""
    if before == after:
        return ()
    changes: list[KeyChange] = []
    if before.format != after.format:
        changes.append(KeyChange("format", "format", str(before.format), str(after.format)))
    changes += _mapping_changes("tool", before.tools, after.tools)
    changes += _mapping_changes("environment", before.environment, after.environment)
    if before.flags != after.flags:
        gone = " ".join(flag for flag in before.flags if flag not in after.flags)
        new = " ".join(flag for flag in after.flags if flag not in before.flags)
        changes.append(KeyChange("flags", "flags", gone or "(another order)", new or "(removed)" if gone else new or "(this order)"))
    if before.bound_to != after.bound_to:
        changes.append(KeyChange("place", "place", " ".join(before.bound_to), " ".join(after.bound_to)))
    # The commands follow from the rest, except when a wrapper changes them by itself.
    if before.commands != after.commands and not changes:
        changes.append(KeyChange("commands", "commands", before.commands, after.commands))
    if before.source != after.source:
        changes.append(KeyChange("file", after.source, before.source, after.source))
    return tuple(changes)


def _mapping_changes(
    kind: Literal["tool", "environment"], before: tuple[tuple[str, str], ...], after: tuple[tuple[str, str], ...]
) -> list[KeyChange]:
    old, new = dict(before), dict(after)
    return [
        KeyChange(kind, name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _described(value: str | None) -> str:
    return "unset" if value is None else repr(value)

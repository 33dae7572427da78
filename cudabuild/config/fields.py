"""This module is what may stand in a configuration table: the keys, the type of each, and the values it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NoReturn

import msgspec

from cudabuild.errors import ConfigError

Value = str | int | bool | tuple[str, ...]

_TYPES = {"text": "a string", "list": "a list of strings", "whole": "a whole number", "switch": "true or false"}
LATER = ("rdc", "memory-per-job", "jit", "steps")
KINDS_LATER = ("ptx", "cubin", "fatbin")
LOGS = ("quiet", "summary", "verbose")
CACHE_MODES = ("off", "read-only", "read-write")


class Field(msgspec.Struct, frozen=True):
    type: Literal["text", "list", "whole", "switch"]
    example: str
    """A right line, for the hint."""
    pattern: str = r".+"
    """What each string must match."""
    meaning: str = ""
    """`pattern` in words."""
    smallest: int = 0
    largest: int | None = None


SIZE = r"(?P<number>\d+(\.\d+)?) ?(?P<unit>[kMGT]B)"
_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def size_in_bytes(text: str) -> int | None:
    """`10 GB` in bytes; None for what is not a size."""
    match = re.fullmatch(SIZE, text)
    return None if match is None else int(float(match["number"]) * _UNITS[match["unit"]])


def _choice(*words: str) -> tuple[str, str]:
    return "|".join(words), " or ".join(f'"{word}"' for word in words)


FIELDS = {
    "name": Field("text", 'name = "prover_kernels"', r"[A-Za-z0-9_][A-Za-z0-9_.-]*",
                  "letters, digits, `_`, `-` and `.`: it becomes lib<name>.a"),
    "kind": Field("text", 'kind = "staticlib"', *_choice("staticlib")),
    "sources": Field("list", 'sources = ["kernels/*.cu"]'),
    "include": Field("list", 'include = ["kernels/include"]'),
    "system-include": Field("list", 'system-include = ["third-party/include"]'),
    "define": Field("list", 'define = ["LIMBS=12"]', r"[A-Za-z_][A-Za-z0-9_]*(=.*)?",
                    "NAME or NAME=VALUE, NAME an identifier"),
    "arch": Field("list", 'arch = ["80", "90"]'),
    "std": Field("text", 'std = "c++17"', r"c\+\+\d\d", "a C++ standard that nvcc knows, as in c++17"),
    "opt": Field("whole", "opt = 3", largest=3),
    "debug": Field("switch", "debug = true"),
    "lineinfo": Field("switch", "lineinfo = true"),
    "cudart": Field("text", 'cudart = "static"', *_choice("static", "shared", "none")),
    "flags": Field("list", 'flags = ["--use_fast_math"]'),
    "host-flags": Field("list", 'host-flags = ["-Wall"]'),
    "link": Field("list", 'link = ["dylib=nccl"]', r"((static|dylib|framework)(:[^=]+)?=)?[^=\s]+",
                  "[KIND=]NAME as for cargo, KIND one of static, dylib, framework"),
    "toolkit": Field("text", 'toolkit = "/usr/local/cuda"'),
    "host-compiler": Field("text", 'host-compiler = "g++-12"'),
    "jobs": Field("whole", "jobs = 4", smallest=1),
    "log": Field("text", 'log = "summary"', *_choice(*LOGS)),
    "cache.dir": Field("text", 'dir = "/var/cache/cudabuild"'),
    "cache.size": Field("text", 'size = "10 GB"', SIZE, "a number and a unit: kB, MB, GB or TB"),
    "cache.mode": Field("text", 'mode = "read-write"', *_choice(*CACHE_MODES)),
}  # fmt: skip


def check_key(key: str, where: str, tables: tuple[str, ...] = ()) -> None:
    """Raise ConfigError unless `key` is a field or one of `tables`."""
    if key in FIELDS or key in tables:
        return
    if key in LATER:
        raise ConfigError(f"{where}: `{key}` comes with a later release", f"remove `{key}`")
    from difflib import get_close_matches  # only a mistake needs it

    known = [*FIELDS, *tables]
    near = get_close_matches(key.lower().replace("_", "-"), known, 1)
    raise ConfigError(
        f"{where}: unknown key", f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(known)}"
    )


def read(key: str, value: object, where: str, expand: Callable[[str], str] | None) -> Value:
    """The value of a field, its type checked, and its content too unless `expand` is None (a table that is not active
    may refer to variables that are not set)."""
    field = FIELDS[key]
    if key == "arch":
        value = _arch_words(value)
    if field.type == "list" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        items = tuple(value if expand is None else map(expand, value))
        if expand is not None:
            for item in items:
                check_text(key, item, where)
        return items
    if field.type == "text" and isinstance(value, str):
        if expand is not None:
            value = expand(value)
            check_text(key, value, where)
        return value
    if field.type == "switch" and isinstance(value, bool):
        return value
    if field.type == "whole" and isinstance(value, int) and not isinstance(value, bool):
        check_number(key, value, where)
        return value
    _wrong(where, value, f"must be {_TYPES[field.type]}", field)


def check_text(key: str, text: str, where: str) -> None:
    field = FIELDS[key]
    if not text.strip():
        _wrong(where, text, "is empty", field)
    if control := re.search(r"[\x00-\x1f\x7f]", text):
        _wrong(where, text, f"holds the control character {control[0]!r}", field)
    if key == "kind" and text in KINDS_LATER:
        raise ConfigError(f'{where} = "{text}" comes with a later release', f"write {field.example}, or remove the key")
    if not re.fullmatch(field.pattern, text):
        _wrong(where, text, f"must be {field.meaning}", field)


def check_number(key: str, number: int, where: str) -> None:
    field = FIELDS[key]
    if number < field.smallest or (field.largest is not None and number > field.largest):
        limits = (
            f"from {field.smallest} to {field.largest}" if field.largest is not None else f"at least {field.smallest}"
        )
        _wrong(where, number, f"must be {limits}", field)


def _arch_words(value: object) -> object:
    """80, "80" and [80, "90a"] are all understood."""
    values = value if isinstance(value, list) else [value]
    words = [str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in values]
    return words if all(isinstance(word, str) for word in words) else value


def _wrong(where: str, value: object, problem: str, field: Field) -> NoReturn:
    shown = msgspec.json.encode(value, enc_hook=str).decode(errors="replace")
    raise ConfigError(f"{where} = {shown[:100]} {problem}", f"as in {field.example}")

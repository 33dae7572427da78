"""This module is ${VAR} in configuration values.

`${NAME}` is the environment variable NAME, announced to cargo as read; `$$` is one `$`; any other `$` is itself. A
value that came out of the environment is not read again.
"""

from __future__ import annotations

import re

from cudabuild.errors import ConfigError
from cudabuild.host import Environment

_REFERENCE = re.compile(r"\$(?:\$|\{(?P<name>[^}]*)(?P<end>\}?))")


def expand(text: str, env: Environment, where: str) -> str:
    """`text` with its variables replaced; `where` names file and key."""

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return "$"
        if not match["end"] or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ConfigError(
                f"{where} = {text!r}: {match[0]!r} names no variable", "write ${NAME}, or $$ for a plain $"
            )
        found = env.get(name)
        if found is None:
            raise ConfigError(f"{where} = {text!r}: the environment variable {name} is not set", _cure(name))
        return found

    return _REFERENCE.sub(value, text)


def _cure(name: str) -> str:
    if name.startswith("DEP_"):
        return (
            "cargo sets DEP_<LINKS>_<KEY> from the metadata (`cargo::metadata=KEY=VALUE`) of a crate with a `links` "
            "key, and only for build scripts of crates that depend on it directly: add it to [dependencies], and "
            "compare the spelling"
        )
    return f"set {name}, or take it out of the value"

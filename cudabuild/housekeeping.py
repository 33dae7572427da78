"""This module cares for the shared cache by hand: what is in it, whether it is whole, and what may go."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

import msgspec

from cudabuild.cache import eviction
from cudabuild.cache.eviction import Stored
from cudabuild.cache.shared import default_folder
from cudabuild.cache.store import CacheError, Store, open_store
from cudabuild.config.fields import size_in_bytes
from cudabuild.config.interpolate import expand
from cudabuild.config.manifest import Table, read_toml
from cudabuild.config.schema import DEFAULT_SIZE
from cudabuild.errors import ConfigError
from cudabuild.host import Environment

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Cleaning(msgspec.Struct, frozen=True, kw_only=True):
    """What `cache-clean` is asked for; with nothing asked, the configured limit is kept."""

    everything: bool = False
    older_than: str | None = None
    max_size: str | None = None
    dry_run: bool = False


class Place(msgspec.Struct, frozen=True):
    """The cache that a build at some place would use."""

    folder: str
    limit: int
    """In bytes."""


def place(env: Environment, cwd: str) -> Place:
    """The folder: CUDABUILD_CACHE_DIR, the `cache.dir` of the crate around `cwd`, else the user's. The limit: the crate's, else
    the default."""
    crate, table = _crate_around(os.path.abspath(os.path.join(cwd, env.peek("CARGO_MANIFEST_DIR") or "")))
    named, size = table.get("dir"), table.get("size")
    limit = size_in_bytes(size) if isinstance(size, str) else None
    variable = env.get("CUDABUILD_CACHE_DIR")
    if variable:
        folder = os.path.abspath(os.path.join(cwd, variable))
    elif isinstance(named, str):
        folder = os.path.join(crate, expand(named, env, f"{crate}: cache.dir"))
    else:
        default = default_folder(env)
        if default is None:
            raise ConfigError("HOME is not set, so there is no cache folder", "set CUDABUILD_CACHE_DIR")
        folder = default
    return Place(folder, DEFAULT_SIZE if limit is None else limit)


def _crate_around(folder: str) -> tuple[str, Table]:
    """The nearest crate upwards and its table `cache`."""
    while True:
        own = read_toml(os.path.join(folder, "cudabuild.toml"), "correct it")
        package = _table(read_toml(os.path.join(folder, "Cargo.toml"), "correct it"), "package")
        if own is not None or package or folder == os.path.dirname(folder):
            return folder, _table(own or _table(_table(package, "metadata"), "cudabuild"), "cache")
        folder = os.path.dirname(folder)


def stats(root: str) -> list[str]:
    """How much is in the cache."""
    store = _opened(root, writable=False)
    if store is None:
        return [f"{root}: empty"]
    stored = eviction.entries(store)
    lines = [f"{root}: {_count(stored)}"]
    if stored:
        lines.append(f"last used: oldest {_age(stored[0].used)} ago, newest {_age(stored[-1].used)} ago")
    return lines


def verify(root: str) -> tuple[list[str], bool]:
    """Read every entry again, as a build would; damaged ones are removed. Whether all were whole."""
    store = _opened(root, writable=True)
    if store is None:
        return [f"{root}: empty"], True
    stored = eviction.entries(store)
    damaged = []
    for one in stored:
        try:
            store.check(os.path.basename(one.path))
        except CacheError as error:
            damaged.append(str(error))
    return [*damaged, f"{root}: {_count(stored)}, {len(damaged)} damaged"], not damaged


def clean(root: str, limit: int, asked: Cleaning) -> tuple[list[str], bool]:
    """Remove what `asked` names, or with `dry_run` say what would go; whether all of it went. `limit` is kept if nothing else is asked."""
    older_than = time.time() - _seconds(asked.older_than) if asked.older_than is not None else None
    max_bytes = _bytes(asked.max_size) if asked.max_size is not None else None
    if asked.everything:
        max_bytes = 0
    elif older_than is None and max_bytes is None:
        max_bytes = limit
    store = _opened(root, writable=True)
    if store is None:
        return [f"{root}: empty, nothing to remove"], True
    chosen = eviction.surplus(eviction.entries(store), max_bytes=max_bytes, older_than=older_than)
    lines = [f"{_size(one.size):>9}  last used {_age(one.used)} ago  {one.path}" for one in chosen]
    if asked.dry_run:
        return [*lines, f"{root}: would remove {_count(chosen)}"], True
    removed = eviction.remove(store, chosen)
    if asked.everything:
        store.forget_answers()
    stuck = [f"could not be removed: {one.path}" for one in removed.stuck]
    return [*lines, *stuck, f"{root}: removed {_count(removed.gone)}"], not stuck


def _table(table: Table | None, key: str) -> Table:
    value = (table or {}).get(key)
    return value if isinstance(value, dict) else {}


def _opened(root: str, *, writable: bool) -> Store | None:
    try:
        if not os.path.lexists(root) or (os.path.isdir(root) and not os.listdir(root)):
            return None
        return open_store(root, writable=writable)
    except OSError as error:
        raise ConfigError(f"{root} cannot be read: {error.strerror}", "nothing was touched") from error
    except CacheError as error:
        raise ConfigError(str(error), "name the right folder with CUDABUILD_CACHE_DIR; nothing was touched") from error


def _seconds(age: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([mhdw])", age)
    if match is None:
        raise ConfigError(f"--older-than {age!r} is not an age", "write 30m, 12h, 7d or 4w")
    return float(match[1]) * _UNITS[match[2]]


def _bytes(size: str) -> int:
    parsed = size_in_bytes(size)
    if parsed is None:
        raise ConfigError(f"--max-size {size!r} is not a size", "write 500MB or 10GB")
    return parsed


def _count(stored: Sequence[Stored]) -> str:
    return f"{len(stored)} {'object' if len(stored) == 1 else 'objects'}, {_size(sum(one.size for one in stored))}"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _age(used: float) -> str:
    seconds = max(0.0, time.time() - used)
    for name, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} seconds"

"""This module is the two TOML files: cudabuild.toml, and what of Cargo.toml concerns a build."""

from __future__ import annotations

import os

import msgspec
import msgspec.toml

from cudabuild.errors import ConfigError

Table = dict[str, object]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Cargo.toml, as far as a build reads it."""

    package: str | None
    features: frozenset[str]
    """Those of [features] and the names of optional dependencies."""
    metadata: Table | None
    """[package.metadata.cudabuild]"""


def read_manifest(path: str) -> Manifest | None:
    """Cargo.toml, or None if there is none."""
    document = read_toml(path, "cargo reads the same file: `cargo metadata` says more")
    if document is None:
        return None
    package = document.get("package")
    if not isinstance(package, dict):
        raise ConfigError(
            f"{path}: no [package]: this is a workspace, not a crate",
            "run in the folder of the crate that holds the kernels, or name it with --manifest-dir",
        )
    name = package.get("name")
    metadata = _table(package.get("metadata")).get("cudabuild")
    if metadata is not None and not isinstance(metadata, dict):
        raise ConfigError(f"{path}: package.metadata.cudabuild is not a table", "write [package.metadata.cudabuild]")
    return Manifest(package=name if isinstance(name, str) else None, features=_features(document), metadata=metadata)


def read_toml(path: str, cure: str) -> Table | None:
    """The file's content, or None if there is none."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError as error:
        if not os.path.islink(path):
            return None
        raise ConfigError(f"{path}: a symlink to nothing", "point it at a file, or remove it") from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", "it must be a file that this user may read"
        ) from error
    try:
        return msgspec.toml.decode(content.decode("utf-8-sig"), type=Table)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8", "save the file as UTF-8") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", cure) from error
    except RecursionError:
        raise ConfigError(f"{path}: its arrays or tables are nested too deeply to be read", cure) from None


def _features(document: Table) -> frozenset[str]:
    names = set(_table(document.get("features")))
    tables = [document, *(_table(target) for target in _table(document.get("target")).values())]
    for table in tables:
        for kind in ("dependencies", "build-dependencies"):
            names |= {name for name, entry in _table(table.get(kind)).items() if _table(entry).get("optional") is True}
    return frozenset(names)


def _table(value: object) -> Table:
    """Cargo judges its own file; what is not a table says nothing to us."""
    return value if isinstance(value, dict) else {}

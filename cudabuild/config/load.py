"""This module is the way from the configuration files, the environment and the command line to one BuildConfig.

Lists add up: the base, the active features in alphabetical order, the active profile, the command line. Of single
values the last one counts. CUDABUILD_JOBS, CUDABUILD_LOG, CUDABUILD_CACHE and CUDABUILD_CACHE_DIR come after the files and before the command line.
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any

import msgspec

from cudabuild.config import fields
from cudabuild.config.active import active_features, active_profile, check_feature, check_profile
from cudabuild.config.interpolate import expand
from cudabuild.config.manifest import Manifest, Table, read_manifest, read_toml
from cudabuild.config.schema import BuildConfig, Overrides
from cudabuild.errors import ConfigError
from cudabuild.host import Environment

# Fields of Overrides, and the keys that they add to or replace.
_LISTS = {
    "source": "sources", "include": "include", "system_include": "system-include", "define": "define", "arch": "arch",
    "flag": "flags", "host_flag": "host-flags",
}  # fmt: skip
_SINGLES = ("toolkit", "host_compiler", "jobs")

_NEEDED = {
    "sources": ("no sources are named", 'name them, as in sources = ["kernels/*.cu"], or with --source'),
    "arch": (
        "no arch is named: cudabuild does not guess which GPUs the library is for",
        (
            'as in arch = ["80", "90"]: 80 or sm_80 is machine code, compute_80 PTX, 80+ptx both; native is the '
            "GPUs of this machine, all-major every generation that the toolkit knows; or give --arch"
        ),
    ),
}


class _File(msgspec.Struct, frozen=True):
    """The configuration as found."""

    path: str
    prefix: str
    """Before every key in messages."""
    table: Table

    def where(self, key: str) -> str:
        return f"{self.path}: {self.prefix}{key}"


def load(crate_root: str, env: Environment, overrides: Overrides) -> BuildConfig:
    """The configuration of the crate in `crate_root`, or a ConfigError that names file, key, value and cure."""
    root = os.path.abspath(crate_root)
    manifest = read_manifest(os.path.join(root, "Cargo.toml"))
    file = _find(root, manifest, overrides)
    declared = manifest.features if manifest else None

    merged: dict[str, fields.Value] = {}
    for prefix, table, active in _tables(file, declared, env, overrides):
        values = _read(file, prefix, table, env, active=active)
        if active:
            _merge(merged, values)
    _apply_variables(merged, env)
    _apply_overrides(merged, overrides)

    if "name" not in merged:
        merged["name"] = _default_name(file, manifest, env)
    for key, (problem, cure) in _NEEDED.items():
        if not merged.get(key):
            raise ConfigError(f"{file.path}: {problem}", cure)
    merged.pop("kind", None)
    if isinstance(size := merged.get("cache.size"), str):
        merged["cache.size"] = fields.size_in_bytes(size) or 0
    arguments: dict[str, Any] = {re.sub(r"[-.]", "_", key): value for key, value in merged.items()}
    return BuildConfig(crate_root=root, config_file=file.path, **arguments)


def _find(root: str, manifest: Manifest | None, overrides: Overrides) -> _File:
    cargo, own = os.path.join(root, "Cargo.toml"), os.path.join(root, "cudabuild.toml")
    table = read_toml(own, "see https://toml.io; `cudabuild init` writes a file to start from")
    if table is not None and manifest is not None and manifest.metadata is not None:
        raise ConfigError(
            f"both {own} and [package.metadata.cudabuild] in {cargo} configure this crate", "keep one of the two"
        )
    if table is not None:
        return _File(own, "", table)
    if manifest is not None and manifest.metadata is not None:
        return _File(cargo, "package.metadata.cudabuild.", manifest.metadata)
    if manifest is not None and overrides.source and overrides.arch:
        return _File(cargo, "package.metadata.cudabuild.", {})
    raise ConfigError(
        f"{root}: neither cudabuild.toml nor [package.metadata.cudabuild] in Cargo.toml is there",
        "`cudabuild init` writes one; --source and --arch together do without",
    )


def _tables(
    file: _File, declared: frozenset[str] | None, env: Environment, overrides: Overrides
) -> list[tuple[str, Table, bool]]:
    """Every table in the order in which they add up: what stands before its keys, its content, whether it is active."""
    base = {key: value for key, value in file.table.items() if key not in ("features", "profile", "cache")}
    base.update({f"cache.{key}": value for key, value in _table(file, "cache").items()})
    features, profiles = _subtables(file, "features"), _subtables(file, "profile")
    for name in features:
        check_feature(name, declared, file.where(f"features.{name}"))
    for name in overrides.feature:
        check_feature(name, declared, "--feature")
    for name in profiles:
        check_profile(name, file.where(f"profile.{name}"))
    if overrides.profile is not None:
        check_profile(overrides.profile, "--profile")
    on, profile = active_features(features, overrides.feature, env), active_profile(overrides.profile, env)
    return [
        ("", base, True),
        *((f"features.{name}.", features[name], name in on) for name in sorted(features)),
        *((f"profile.{name}.", profiles[name], name == profile) for name in profiles),
    ]


def _table(file: _File, key: str) -> Table:
    table = file.table.get(key, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{file.where(key)} is not a table", f"write [{file.prefix}{key}] and the keys below it")
    return table


def _subtables(file: _File, key: str) -> dict[str, Table]:
    tables = file.table.get(key, {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{file.where(key)} is not a table", f"write [{file.prefix}{key}.NAME] and the keys below it")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{file.where(f'{key}.{name}')} is not a table",
                f"write [{file.prefix}{key}.{name}] and the keys below it",
            )
    return tables


def _read(file: _File, prefix: str, table: Table, env: Environment, *, active: bool) -> dict[str, fields.Value]:
    values: dict[str, fields.Value] = {}
    for key, value in table.items():
        where = file.where(prefix + key)
        if key == "rdc" and value is False:
            continue  # what a later release will call the default
        fields.check_key(key, where, () if prefix else ("features", "profile"))
        values[key] = fields.read(key, value, where, partial(expand, env=env, where=where) if active else None)
    return values


def _merge(merged: dict[str, fields.Value], values: dict[str, fields.Value]) -> None:
    for key, value in values.items():
        before = merged.get(key)
        merged[key] = before + value if isinstance(before, tuple) and isinstance(value, tuple) else value


def _apply_variables(merged: dict[str, fields.Value], env: Environment) -> None:
    if (jobs := env.get("CUDABUILD_JOBS")) is not None:
        if not (jobs.isascii() and jobs.isdigit() and int(jobs) > 0):
            raise ConfigError(f"CUDABUILD_JOBS = {jobs!r} is not a number of jobs", "set it to 1 or more, or unset it")
        merged["jobs"] = int(jobs)
    if (log := env.get("CUDABUILD_LOG")) is not None:
        if log not in fields.LOGS:
            raise ConfigError(
                f"CUDABUILD_LOG = {log!r} is not a way to log",
                f"set it to one of {', '.join(fields.LOGS)}, or unset it",
            )
        merged["log"] = log
    if (mode := env.get("CUDABUILD_CACHE")) is not None:
        if mode not in fields.CACHE_MODES:
            raise ConfigError(
                f"CUDABUILD_CACHE = {mode!r} is not a mode", f"set it to one of {', '.join(fields.CACHE_MODES)}, or unset it"
            )
        merged["cache.mode"] = mode
    if folder := env.get("CUDABUILD_CACHE_DIR"):
        merged["cache.dir"] = os.path.abspath(folder)


def _apply_overrides(merged: dict[str, fields.Value], overrides: Overrides) -> None:
    values: dict[str, fields.Value] = {}
    for attribute, key in _LISTS.items():
        items: tuple[str, ...] = getattr(overrides, attribute)
        for item in items:
            fields.check_text(key, item, "--" + attribute.replace("_", "-"))
        values[key] = items
    if overrides.cache is not None:
        values["cache.mode"] = overrides.cache
    for attribute in _SINGLES:
        value: str | int | None = getattr(overrides, attribute)
        if value is None:
            continue
        key = attribute.replace("_", "-")
        where = "--" + key
        if isinstance(value, str):
            fields.check_text(key, value, where)
        else:
            fields.check_number(key, value, where)
        values[key] = value
    _merge(merged, values)


def _default_name(file: _File, manifest: Manifest | None, env: Environment) -> str:
    package = env.peek("CARGO_PKG_NAME") or (manifest.package if manifest else None)
    if package is None:
        raise ConfigError(f"{file.path}: no `name`, and no Cargo.toml to take it from", 'as in name = "prover_kernels"')
    return package.replace("-", "_") + "_cuda"

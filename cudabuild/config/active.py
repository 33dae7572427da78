"""This module is which features and which profile of cargo a build is for."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cudabuild.errors import ConfigError
from cudabuild.host import Environment

# cargo's folder and its PROFILE variable say `debug` for the dev profile; test and bench share the folders of dev and
# release.
_PROFILE_OF_FOLDER = {"debug": "dev"}
_NO_PROFILES = {"debug": "dev", "test": "dev", "bench": "release"}


def active_features(names: Iterable[str], assumed: Collection[str], env: Environment) -> frozenset[str]:
    """Those of `names` that are on."""
    return frozenset(
        name
        for name in names
        if name in assumed or env.peek("CARGO_FEATURE_" + name.upper().replace("-", "_")) is not None
    )


def active_profile(assumed: str | None, env: Environment) -> str:
    """The profile's name; `dev`, cargo's own default, when nothing tells."""
    if assumed is not None:
        return assumed
    folder = _profile_folder(env.peek("OUT_DIR") or "") or env.peek("PROFILE") or "dev"
    return _PROFILE_OF_FOLDER.get(folder, folder)


def check_feature(name: str, declared: frozenset[str] | None, where: str) -> None:
    """Raise ConfigError for a feature that Cargo.toml does not declare; None: there is no Cargo.toml to ask."""
    if declared is None or name in declared:
        return
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(name, declared, 1)
    cure = f"did you mean `{near[0]}`?" if near else f"add `{name} = []` to [features], or remove it here"
    raise ConfigError(f"{where}: Cargo.toml declares no feature `{name}`", cure)


def check_profile(name: str, where: str) -> None:
    if instead := _NO_PROFILES.get(name):
        raise ConfigError(
            f"{where}: build scripts never run in a profile `{name}`", f"write `{instead}`, which covers it"
        )


def _profile_folder(out_dir: str) -> str | None:
    """`release` of <target>/[triple/]release/build/<package>-<hash>/out: PROFILE hides custom profiles."""
    parts = out_dir.rstrip("/").split("/")
    return parts[-4] if len(parts) >= 5 and parts[-1] == "out" and parts[-3] == "build" else None

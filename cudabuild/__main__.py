"""This module is the command line; each command is a few lines over the module that does the work.

argparse, not click: a build script pays the import at every run, and click's costs 40 ms more.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from cudabuild import __version__, streams
from cudabuild.errors import CudabuildError
from cudabuild.host import Environment, end_in_order


def main(argv: Sequence[str], env: Environment) -> int:
    """Run one command; the exit code."""
    try:
        return _command(argv, env)
    except CudabuildError as error:
        print(f"cudabuild: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        streams.give_up_stdout()
        return 141


def _command(argv: Sequence[str], env: Environment) -> int:
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit:  # after --help and --version too
        sys.stdout.flush()
        raise
    code: int = arguments.run(arguments, env)
    sys.stdout.flush()
    return code


def run() -> None:
    """The `cudabuild` program."""
    streams.prepare()
    end_in_order()
    sys.exit(main(sys.argv[1:], Environment(os.environ)))


class _Formatter(argparse.HelpFormatter):
    """argparse makes a formatter for each option that is declared; asking for the terminal's width would import shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cudabuild", allow_abbrev=False, formatter_class=_Formatter,
        description="Build CUDA kernels for a Cargo crate, and rebuild them exactly when what they read changes.",
        epilog="Exit codes: 0 done, 1 build failed, 2 configuration, 3 toolchain, 4 inputs kept changing, 130/143 signals.",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"cudabuild {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _build_command(commands.add_parser(
        "build", allow_abbrev=False, formatter_class=_Formatter, help="bring the library up to date (what build.rs calls)",
        description="Compile what is not up to date into lib<name>.a. Under cargo (OUT_DIR is set) cargo's directives go to "
        "stdout; by hand a summary does, or the report as JSON.",
    ))  # fmt: skip
    init = commands.add_parser(
        "init", allow_abbrev=False, formatter_class=_Formatter, help="write build.rs and cudabuild.toml into a crate",
        description="Write build.rs and cudabuild.toml into a crate; asks before it overwrites.",
    )  # fmt: skip
    init.add_argument("folder", nargs="?", default=".", help="the crate (default: this folder)")
    init.add_argument("--force", action="store_true", help="overwrite without asking")
    init.set_defaults(run=_init)
    invalidate = commands.add_parser(
        "invalidate", allow_abbrev=False, formatter_class=_Formatter, help="make cargo run a crate's build script again",
        description="Make cargo run the build script of CRATE again, in every profile; without CRATE, of all crates in the "
        "workspace that cudabuild has built.",
    )  # fmt: skip
    invalidate.add_argument("crate", nargs="?")
    invalidate.add_argument("--rebuild", action="store_true", help="that run compiles everything and uses no cache")
    invalidate.set_defaults(run=_invalidate)
    clean = commands.add_parser(
        "cache-clean", allow_abbrev=False, formatter_class=_Formatter, help="remove objects from the shared cache",
        description="Remove objects from the shared cache and say which; without options, what is above the size limit.",
    )  # fmt: skip
    clean.add_argument("--all", action="store_true", help="everything")
    clean.add_argument("--older-than", metavar="AGE", help="what was not used for 30m, 12h, 7d, 4w")
    clean.add_argument("--max-size", metavar="SIZE", help="the longest unused ones, down to 500MB, 10GB")
    clean.add_argument("--dry-run", action="store_true", help="only say what would go")
    clean.set_defaults(run=_cache_clean)
    cache = commands.add_parser(
        "cache", allow_abbrev=False, formatter_class=_Formatter, help="stats, verify, path of the shared cache",
        description="stats: how much is in it; verify: read every object again, damaged ones go; path: where it is.",
    )  # fmt: skip
    cache.add_argument("what", choices=("stats", "verify", "path"))
    cache.set_defaults(run=_cache)
    doctor = commands.add_parser(
        "doctor", allow_abbrev=False, formatter_class=_Formatter, help="what is found, from where, what is wrong, and the cure",
        description="Look at the toolkit, the host compiler, ninja, cargo and the environment. Needs none of them.",
    )  # fmt: skip
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.set_defaults(run=_doctor)
    return parser


def _build_command(parser: argparse.ArgumentParser) -> None:
    place = parser.add_argument_group("where")
    place.add_argument("--manifest-dir", metavar="DIR", help="the crate (default: cargo's, else the nearest one upwards)")
    place.add_argument("--out", metavar="DIR", help="output folder (default: OUT_DIR, else <target>/cudabuild/<crate>-<hash>)")
    adds = parser.add_argument_group("added to the configuration (write values that begin with - as --flag=-lineinfo)")
    for name, what in (
        ("source", "GLOB"), ("include", "DIR"), ("system-include", "DIR"), ("define", "NAME[=VALUE]"), ("arch", "ARCH"),
        ("flag", "FLAG"), ("host-flag", "FLAG"), ("feature", "NAME"),
    ):  # fmt: skip
        adds.add_argument(f"--{name}", metavar=what, action="append", default=[])
    for name, what in (("profile", "NAME"), ("toolkit", "PATH"), ("host-compiler", "PATH")):
        adds.add_argument(f"--{name}", metavar=what)
    adds.add_argument("--jobs", "-j", metavar="N", type=int)
    adds.add_argument("--cache", choices=("off", "read-only", "read-write"), help="how to use the shared cache")
    parser.add_argument("--json", action="store_true", help="print the report as JSON (by hand only)")
    parser.set_defaults(run=_build)


def _build(arguments: argparse.Namespace, env: Environment) -> int:
    started = time.monotonic()
    from cudabuild.cargo.places import find_places
    from cudabuild.config.schema import Overrides
    from cudabuild.pipeline import build
    from cudabuild.report import output

    places = find_places(arguments.manifest_dir, arguments.out, env, os.getcwd())
    names = ("source", "include", "system_include", "define", "arch", "flag", "host_flag", "feature")
    lists: dict[str, Any] = {name: tuple(getattr(arguments, name)) for name in names}
    overrides = Overrides(
        **lists,
        profile=arguments.profile, toolkit=arguments.toolkit, host_compiler=arguments.host_compiler, jobs=arguments.jobs,
        cache=arguments.cache,
    )  # fmt: skip
    with output.progress(hidden=places.cargo or arguments.json) as progress:
        result = build(places, overrides, env, progress, started)
    if places.cargo:
        output.for_cargo(result, env.peek("CARGO_PKG_RUST_VERSION"))
    elif arguments.json:
        output.for_tools(result)
    else:
        output.for_people(result)
    return result.error.exit_code if result.error is not None else 0


def _init(arguments: argparse.Namespace, _env: Environment) -> int:
    from cudabuild.scaffold import init

    def ask(question: str) -> bool:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    for line in init(arguments.folder, arguments.force, ask):
        print(line)
    return 0


def _invalidate(arguments: argparse.Namespace, env: Environment) -> int:
    from cudabuild.cargo.invalidation import invalidate

    print("\n".join(invalidate(arguments.crate, env, os.getcwd(), rebuild=arguments.rebuild)))
    return 0


def _cache_clean(arguments: argparse.Namespace, env: Environment) -> int:
    from cudabuild import housekeeping

    asked = housekeeping.Cleaning(
        everything=arguments.all, older_than=arguments.older_than, max_size=arguments.max_size, dry_run=arguments.dry_run
    )
    place = housekeeping.place(env, os.getcwd())
    lines, complete = housekeeping.clean(place.folder, place.limit, asked)
    print("\n".join(lines))
    return 0 if complete else 1


def _cache(arguments: argparse.Namespace, env: Environment) -> int:
    from cudabuild import housekeeping

    root = housekeeping.place(env, os.getcwd()).folder
    if arguments.what == "path":
        print(root)
        return 0
    lines, whole = housekeeping.verify(root) if arguments.what == "verify" else (housekeeping.stats(root), True)
    print("\n".join(lines))
    return 0 if whole else 1


def _doctor(arguments: argparse.Namespace, env: Environment) -> int:
    from cudabuild import doctor

    return doctor.run(env, as_json=arguments.json)


if __name__ == "__main__":
    run()

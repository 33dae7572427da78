"""This module is one build from front to back; each step's result is the next one's argument.

configuration -> units -> toolchain -> record -> decisions -> (missing work) ninja -> archive -> record -> directives -> report
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from cudabuild import archive
from cudabuild.cache import record as records
from cudabuild.cache.decisions import Decision, decide
from cudabuild.cache.keys import Request
from cudabuild.cache.reading import Disk
from cudabuild.cache.record import Made, Record
from cudabuild.cache.shared import SharedCache
from cudabuild.cargo import directives, watched
from cudabuild.cargo.directives import Directive
from cudabuild.cargo.places import Places
from cudabuild.compile import Compiled, compile_units, raise_failures
from cudabuild.config.load import load
from cudabuild.config.schema import BuildConfig, Overrides
from cudabuild.errors import CudabuildError
from cudabuild.files import Digests
from cudabuild.graph.units import Unit, find_units
from cudabuild.host import Environment
from cudabuild.ninja.limit import job_limit
from cudabuild.ninja.process import Progress, find_ninja, run_ninja
from cudabuild.nvcc import arguments, libraries, reserved
from cudabuild.nvcc.toolchain import Toolchain, examine
from cudabuild.outdir import NotOurs, OutDir, disk_error
from cudabuild.report import compose, schema, summary
from cudabuild.report.schema import BuildReport
from cudabuild.roots import Roots


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """What a build did: the report, cargo's lines, and the error that ended it, if one did."""

    report: BuildReport
    directives: tuple[Directive, ...]
    """None for a build by hand."""
    error: CudabuildError | None


class Known:
    """What a build has learnt so far. One that fails half-way still reports it, and tells cargo all that was read."""

    def __init__(self, places: Places) -> None:
        self.roots = Roots(places.crate, places.out)
        self.config: BuildConfig | None = None
        self.units: tuple[Unit, ...] = ()
        self.toolchain: Toolchain | None = None
        self.decisions: tuple[Decision, ...] = ()
        self.compiled: list[Compiled] = []
        self.warnings: list[str] = []
        self.record = Record()
        self.link: tuple[Directive, ...] = ()


def build(places: Places, overrides: Overrides, env: Environment, progress: Progress, started: float) -> Build:
    """Bring the library up to date. `started` is the command's start by time.monotonic()."""
    out = OutDir(places.out)
    known = Known(places)
    error: CudabuildError | None = None
    try:
        _bring_up_to_date(places, out, overrides, env, progress, known)
    except CudabuildError as caught:
        error = caught
    except OSError as caught:
        error = disk_error(caught, places.out)
    report = compose.report(
        crate=env.peek("CARGO_PKG_NAME") or os.path.basename(places.crate), out=out, config=known.config,
        toolchain=known.toolchain, decisions=known.decisions, compiled=known.compiled, warnings=known.warnings, error=error,
        milliseconds=round((time.monotonic() - started) * 1000),
    )  # fmt: skip
    if not isinstance(error, NotOurs):
        out.keep_report(schema.encode(report))
    return Build(report=report, directives=_directives(known, report, env) if places.cargo else (), error=error)


def _bring_up_to_date(
    places: Places, out: OutDir, overrides: Overrides, env: Environment, progress: Progress, known: Known
) -> None:
    config = known.config = load(places.crate, env, overrides)
    out.check()
    if not places.cargo:  # cargo's OUT_DIR belongs to the crate alone
        out.check_library(config.name)
    reserved.check(config, env)
    units = known.units = find_units(config, known.roots)
    arguments.check_paths(config, units, known.roots)
    record = known.record = _load(out, known.roots)
    shared = SharedCache(config, env, serve=not out.rebuild_asked)
    known.warnings = shared.warnings
    digests = Digests(record.digests or shared.digests())
    toolchain = known.toolchain = examine(
        config, env, known.roots, digests, lambda question: [*record.probes, *shared.probes(question)]
    )
    roots = known.roots = msgspec.structs.replace(known.roots, cuda=toolchain.root)
    known.decisions = _decide_all(units, config, toolchain, record, out, env, roots, Disk(digests))
    if not _is_done(known, out, digests):
        with out.exclusive():
            _do_missing_work(out, env, progress, known, config, toolchain, digests, shared)
    elif digests.used() != record.digests or toolchain.probe not in record.probes:
        with out.exclusive():
            record = known.record = _load(out, known.roots)
            probes = (toolchain.probe,)
            records.save(out.record, msgspec.structs.replace(record, probes=probes, digests=digests.used()))
    out.make_stamp()
    folders = []
    if config.cudart != "none":
        folders.append(libraries.cudart_folder(config.cudart, toolchain.library_dirs, toolchain.root, out.links))
    stubs = libraries.stubs_folder(config.link, toolchain.library_dirs)
    if stubs is not None:
        folders.append(stubs)
    known.link = directives.link(out.archive(config.name), config.name, config.cudart, folders, config.link)


def _do_missing_work(
    out: OutDir, env: Environment, progress: Progress, known: Known, config: BuildConfig, toolchain: Toolchain,
    digests: Digests, shared: SharedCache,
) -> None:  # fmt: skip
    """Under the lock: decide once more, for another build may have done the work while we waited; compile; archive; record."""
    record = known.record = _load(out, known.roots)
    units, roots, disk = known.units, known.roots, Disk(digests)
    known.decisions = _decide_all(units, config, toolchain, record, out, env, roots, disk)
    _restore(known, shared, out, disk)
    compile_now = partial(_compile, out=out, env=env, progress=progress, config=config, toolchain=toolchain, roots=roots, disk=disk)
    with shared.claim([decision.request for decision in _missing(known)]) as ours:
        _restore(known, shared, out, disk)  # what was made between the look and the claim
        _compile_and_publish([one for one in _missing(known) if one.request in ours], known, shared, out, compile_now)
    for decision in _missing(known):  # another build had claimed them
        shared.wait_for(decision.request)
    disk.forget()
    _restore(known, shared, out, disk)
    _compile_and_publish(_missing(known), known, shared, out, compile_now)
    made = {one.request.source: one.made for one in known.decisions if one.made is not None}
    made.update({one.decision.request.source: one.made for one in known.compiled if one.made is not None})
    record = msgspec.structs.replace(record, made=made, probes=(toolchain.probe,))
    try:
        raise_failures(known.compiled, len(units))
        members = _members(units, record.made, roots)
        path = out.archive(config.name)
        if not archive.is_fresh(path, members, record, digests):
            archive.make_archive(path, [out.object(unit.name) for unit in units], env)
            if record.library not in ("", os.path.basename(path)):
                out.remove_library(record.library)
            record = msgspec.structs.replace(
                record, library=os.path.basename(path), archive=digests.of(path) or "", members=members
            )
        out.remove_old_objects(unit.name for unit in units)
    finally:
        known.record = record
        records.save(out.record, msgspec.structs.replace(record, digests=digests.used()))
        shared.keep(toolchain.probe, digests.used())


def _load(out: OutDir, roots: Roots) -> Record:
    """The last build's record, without the objects that a rebuild or another place rules out."""
    record = records.load(out.record)
    made = {} if out.rebuild_asked else record.made
    if record.place != (roots.crate, roots.out):
        made = {source: one for source, one in made.items() if not one.reading.unshared}
    return msgspec.structs.replace(record, made=made, place=(roots.crate, roots.out))


def _missing(known: Known) -> list[Decision]:
    """What has still to be compiled."""
    done = {one.decision.unit.name for one in known.compiled}
    return [one for one in known.decisions if one.action == "compile" and one.unit.name not in done]


def _restore(known: Known, shared: SharedCache, out: OutDir, disk: Disk) -> None:
    """Take from the cache what another build has made."""
    decisions = []
    missing = {one.unit.name for one in _missing(known)}
    for one in known.decisions:
        if one.unit.name in missing:
            made = shared.restore(one.request, out.object(one.unit.name), disk, known.roots.real)
            if made is not None:
                one = msgspec.structs.replace(one, action="restore", made=made)
        decisions.append(one)
    known.decisions = tuple(decisions)


def _compile_and_publish(
    missing: Sequence[Decision], known: Known, shared: SharedCache, out: OutDir,
    compile_now: Callable[[Sequence[Decision]], list[Compiled]],
) -> None:  # fmt: skip
    if not missing:
        return
    compiled = compile_now(missing)
    known.compiled += compiled
    for one in compiled:
        if one.made is not None:
            shared.publish(one.made, out.object(one.decision.unit.name))
    shared.trim()


def _decide_all(
    units: Sequence[Unit], config: BuildConfig, toolchain: Toolchain, record: Record, out: OutDir, env: Environment,
    roots: Roots, disk: Disk,
) -> tuple[Decision, ...]:  # fmt: skip
    variables = tuple((name, value) for name in sorted(arguments.ENVIRONMENT) if (value := env.get(name)) is not None)
    decisions = []
    for unit in units:
        flags = arguments.flags(config, toolchain.archs, toolchain.ccbin, roots, unit.language)
        request = Request(
            source=roots.logical(unit.source), flags=tuple(roots.logical_argument(flag) for flag in flags),
            environment=variables, tools=toolchain.identity, commands=toolchain.commands,
            bound_to=arguments.bound_to(config, unit, flags, dict(variables), roots),
        )  # fmt: skip
        made = record.made.get(request.source)
        decisions.append(decide(unit, flags, request, made, out.object(unit.name), disk, roots))
    if out.rebuild_asked:
        decisions = [msgspec.structs.replace(decision, reason="a rebuild was asked for") for decision in decisions]
    return tuple(decisions)


def _is_done(known: Known, out: OutDir, digests: Digests) -> bool:
    assert known.config is not None
    if any(decision.action == "compile" for decision in known.decisions):
        return False
    members = _members(known.units, known.record.made, known.roots)
    return archive.is_fresh(out.archive(known.config.name), members, known.record, digests)


def _members(units: Sequence[Unit], made: Mapping[str, Made], roots: Roots) -> archive.Members:
    return tuple((unit.name, made[roots.logical(unit.source)].object) for unit in units)


def _compile(
    missing: Sequence[Decision], out: OutDir, env: Environment, progress: Progress, config: BuildConfig, toolchain: Toolchain,
    roots: Roots, disk: Disk,
) -> list[Compiled]:  # fmt: skip
    ninja = find_ninja(env.peek("PATH"))
    limit = job_limit(config.jobs, env)
    scratch = out.new_scratch()
    try:
        compiled = compile_units(
            missing, toolchain, folder=scratch, objects=out.objects, roots=roots, disk=disk, library=config.name,
            pool=limit.pool,
            run_ninja=lambda file: run_ninja(ninja, file, cwd=roots.crate, env=env.copy(), limit=limit, progress=progress),
        )  # fmt: skip
    except BaseException:
        out.remove_scratch(scratch)
        raise
    out.remove_intermediates(scratch)
    return compiled


def _directives(known: Known, report: BuildReport, env: Environment) -> tuple[Directive, ...]:
    lines: list[Directive] = []
    if known.config is None:
        lines += directives.rerun_if_changed(watched.configuration(known.roots.crate), (), ())
    else:
        own = [known.roots.out]
        made = known.record.made.values()
        lines += directives.rerun_if_changed(
            watched.files(known.config, known.units, known.toolchain, made, known.roots),
            watched.folders(known.config, known.toolchain, made, known.roots), own,
        )  # fmt: skip
        # In the folder that builds write to, and yet watched: a build never makes it newer.
        stamp = OutDir(known.roots.out).stamp
        if os.path.exists(stamp):
            lines.append(Directive("rerun-if-changed", stamp))
        blind = watched.blind_spots(known.config, known.toolchain, made, known.roots, own)
        lines += [directives.warning(text) for text in blind]
    lines += directives.rerun_if_env_changed(env.names_read)
    lines += known.link
    log = known.config.log if known.config is not None else "summary"
    lines += [directives.warning(text) for text in report.warnings]
    if log == "verbose":
        lines += [directives.warning(summary.unit_line(unit)) for unit in report.units]
    if log != "quiet":
        # Cargo shows the line again at every build that does not run the script: the time tells an old one from a new one.
        lines.append(directives.warning(f"{summary.one_line(report)} [{time.strftime('%H:%M:%S')}]"))
    return tuple(lines)

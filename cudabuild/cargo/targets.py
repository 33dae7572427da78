"""This module finds what cudabuild made in a workspace's target folder, for every profile and target triple."""

from __future__ import annotations

import os
import re

import msgspec

from cudabuild.outdir import OutDir


class BuildFolder(msgspec.Struct, frozen=True):
    """One build script's folder: `<target>/[triple/]<profile>/build/<crate>-<hash>/out`."""

    crate: str
    profile: str
    """The path between the target folder and `build`, e.g. `release` or `aarch64-unknown-linux-gnu/debug`."""
    out: OutDir


def build_folders(target: str) -> tuple[BuildFolder, ...]:
    """Those in which cudabuild has built, in the order of their paths."""
    import glob

    found = []
    for depth in ("*", "*/*"):
        for own in glob.glob(os.path.join(glob.escape(target), depth, "build", "*", "out", "cudabuild")):
            out = os.path.dirname(own)
            package = re.fullmatch(r"(.+)-[0-9a-f]{16}", os.path.basename(os.path.dirname(out)))
            if package is not None and os.path.isdir(own):
                profile = os.path.relpath(os.path.dirname(os.path.dirname(os.path.dirname(out))), target)
                found.append(BuildFolder(package[1], profile, OutDir(out)))
    return tuple(sorted(found, key=lambda folder: folder.out.root))

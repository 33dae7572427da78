"""This module is loaded by an interpreter that has its folder on PYTHONPATH, and lets chosen effects of `python -m cudabuild` go wrong.

An effect is what changes a file or starts a process. They are seen by Python's audit hook, which runs before each and may refuse.

    EFFECTS_LOG        every effect is written there, one a line
    EFFECTS_AT         which one goes wrong, from 1; `all` for each
    EFFECTS_UNDER      only those on paths below this folder count
    EFFECTS_HOW        an errno's name (ENOSPC): the effect fails so; `die`: the process ends at once; NotImplementedError
    EFFECTS_KIND       only effects of this kind, e.g. `flock`
"""

from __future__ import annotations

import errno
import os
import sys

KINDS = {
    "open": "open", "os.rename": "rename", "os.remove": "remove", "os.mkdir": "mkdir", "os.rmdir": "rmdir", "os.utime": "utime",
    "os.symlink": "symlink", "os.link": "link", "os.truncate": "truncate", "os.chmod": "chmod", "subprocess.Popen": "start",
    "fcntl.flock": "flock",
}  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def install(settings: dict[str, str]) -> None:
    log = os.open(settings["EFFECTS_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND) if "EFFECTS_LOG" in settings else None
    at, how = settings.get("EFFECTS_AT", ""), settings.get("EFFECTS_HOW", "")
    under, only = settings.get("EFFECTS_UNDER", ""), settings.get("EFFECTS_KIND")
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        kind = KINDS.get(event)
        if kind is None or (only or kind) != kind or (only is None and kind == "flock"):
            return
        if kind == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITES):
            return
        name = str(arguments[0])
        if under and not (name.startswith(under) or (kind == "rename" and str(arguments[1]).startswith(under))):
            return
        if name == os.devnull:
            return
        count += 1
        if log is not None:
            os.write(log, f"{kind} {name}\n".encode())
        if at in ("all", str(count)):
            if how == "die":
                os._exit(86)
            if how == "NotImplementedError":
                raise NotImplementedError("FileSystem does not appear to support flock")
            number = getattr(errno, how)
            raise OSError(number, os.strerror(number), name)

    sys.addaudithook(hook)


if sys.orig_argv[1:3] == ["-m", "cudabuild"]:
    install(dict(os.environ))

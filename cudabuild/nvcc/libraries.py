"""This module finds the CUDA runtime library that a Rust program links."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from cudabuild.errors import ToolchainError


def cudart_folder(kind: str, library_dirs: Sequence[str], root: str, links: str) -> str:
    """The folder that really holds libcudart_static.a or libcudart.so.

    nvcc names its folders, but the profile of the 13.0 and 13.1 wheels says lib64 where the wheel has lib. The wheels also have
    no libcudart.so, only the versioned name, which a linker does not look for: then a link is made in the folder `links`.
    """
    wanted = "libcudart_static.a" if kind == "static" else "libcudart.so"
    usual = ("lib64", "lib", "targets/x86_64-linux/lib") if root else ()
    folders = [*library_dirs, *(os.path.join(os.path.normpath(root), name) for name in usual)]
    folders = [folder for folder in dict.fromkeys(folders) if os.path.basename(folder) != "stubs"]
    for folder in folders:
        if os.path.isfile(os.path.join(folder, wanted)):
            return folder
    if kind == "shared":
        for folder in folders:
            versioned = _versioned(folder)
            if versioned is not None:
                # The versioned name too: `cargo run` lets a program look for libraries in the folders below OUT_DIR.
                for name in (wanted, os.path.basename(versioned)):
                    _link(versioned, os.path.join(links, name))
                return links
    raise ToolchainError(
        f"{wanted} is in none of the toolkit's library folders: {', '.join(folders) or '(it names none)'}",
        "install the toolkit's runtime development package (nvidia-cuda-runtime among the wheels), or set `cudart`",
    )


def _link(target: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.islink(path) and os.readlink(path) == target:
        return
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(target, path)


def stubs_folder(links: Sequence[str], library_dirs: Sequence[str]) -> str | None:
    """The folder of stand-ins for the driver's libraries, if one of `links` ([KIND=]NAME) is such a library.

    Only a linker may see it: a program that finds a stand-in when it starts finds no GPU.
    """
    if not any(link.rpartition("=")[2] in ("cuda", "nvidia-ml") for link in links):
        return None
    named = [folder if os.path.basename(folder) == "stubs" else os.path.join(folder, "stubs") for folder in library_dirs]
    return next((folder for folder in named if os.path.isdir(folder)), None)


def _versioned(folder: str) -> str | None:
    try:
        names = [name for name in os.listdir(folder) if re.fullmatch(r"libcudart\.so\.[\d.]+", name)]
    except OSError:
        return None
    return os.path.join(folder, min(names, key=len)) if names else None

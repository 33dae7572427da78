"""This module names paths by what they belong to, so that a key made in one checkout is the same in another."""

from __future__ import annotations

import os

import msgspec

from cudabuild.files import within


class Roots(msgspec.Struct, frozen=True):
    """The folders that a build knows by role. All absolute; `cuda` is as nvcc spells it (`/opt/cuda/bin/..`)."""

    crate: str
    out: str
    cuda: str = ""

    def _named(self) -> list[tuple[str, str]]:
        pairs = [("@crate", self.crate), ("@out", self.out), ("@cuda", self.cuda)]
        # OUT_DIR lies below the crate, or the crate below a toolkit's venv: the longest root names a path.
        stripped = [(name, root.rstrip("/")) for name, root in pairs]
        return sorted((pair for pair in stripped if pair[1]), key=lambda pair: -len(pair[1]))

    def logical(self, path: str) -> str:
        """`@crate/…`, `@out/…`, `@cuda/…`, else the path itself; relative paths start at the crate."""
        path = self.absolute(path)
        for name, root in self._named():
            if within(path, root):
                return name + path[len(root):]
        return path

    def logical_argument(self, argument: str) -> str:
        """The same for an argument that is an absolute path, or one after -I. Any other text is kept: in -DDATA=/abs/path it
        ends in the object, which another checkout then must not take for its own."""
        option = "-I" if argument.startswith("-I") else ""
        path = argument[len(option):]
        return option + self.logical(path) if path.startswith("/") else argument

    def real(self, logical: str) -> str:
        """The inverse of `logical`: an absolute path."""
        if not logical.startswith("@"):
            return logical
        name, slash, rest = logical.partition("/")
        root = {"@crate": self.crate, "@out": self.out, "@cuda": self.cuda}.get(name)
        return logical if root is None else root.rstrip("/") + slash + rest

    def absolute(self, path: str) -> str:
        """Absolute spelling from the crate's folder; `..` is kept, since folders may be symlinks."""
        return path if path.startswith("/") else os.path.join(self.crate, path)

    def argument(self, path: str) -> str:
        """How a path is given to nvcc: from the crate's folder when it lies below it, so that __FILE__ and the object do not
        depend on where the checkout is."""
        absolute = self.absolute(path)
        plain = os.path.normpath(absolute)
        # `..` behind a symlink leads elsewhere than its text says.
        if plain != absolute and os.path.exists(absolute) and not (os.path.exists(plain) and os.path.samefile(plain, absolute)):
            plain = absolute
        if plain == self.crate:
            return "."
        return plain[len(self.crate):].lstrip("/") if within(plain, self.crate) else plain

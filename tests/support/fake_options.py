"""This module is the fake nvcc's command line: the options that real builds use, spelled as nvcc takes them.

An option outside the tables is an error, as in nvcc, so that a test sees a flag that nvcc would refuse.
"""

from fake_cpp import CompileError

Environment = dict[str, str]

TAKES_VALUE = {
    "-I": "include", "--include-path": "include", "-isystem": "system", "--system-include": "system", "-iquote": "quote",
    "-include": "preinclude", "--pre-include": "preinclude", "-D": "define", "--define-macro": "define", "-U": "undefine",
    "--undefine-macro": "undefine", "-o": "output", "--output-file": "output", "-odir": "odir", "-x": "language",
    "-gencode": "gencode", "--generate-code": "gencode", "-arch": "arch", "--gpu-architecture": "arch", "-code": "code",
    "--gpu-code": "code", "-MF": "depfile", "--dependency-output": "depfile", "-MT": "target", "--keep-dir": "keep_dir",
    "-ccbin": "ccbin", "--compiler-bindir": "ccbin", "-Xcompiler": "flag", "--compiler-options": "flag", "-Xptxas": "flag",
    "--ptxas-options": "flag", "-Xcudafe": "flag", "-Xfatbin": "flag", "-Xnvlink": "flag", "-std": "flag", "--std": "flag",
    "-O": "flag", "--optimize": "flag", "-maxrregcount": "flag", "-rdc": "flag", "--relocatable-device-code": "flag",
    "-cudart": "flag", "--cudart": "flag", "--frandom-seed": "flag", "-frandom-seed": "flag", "-diag-suppress": "flag",
    "-Werror": "flag", "-t": "threads", "--threads": "threads", "-ftz": "flag", "-fmad": "flag", "-prec-div": "flag",
    "-prec-sqrt": "flag", "--compress-mode": "flag", "-L": "flag", "-l": "flag",
}  # fmt: skip
ALONE = {
    "-c": "mode", "--compile": "mode", "-dc": "mode", "-ptx": "mode", "-cubin": "mode", "-fatbin": "mode", "-E": "mode",
    "-M": "mode", "-MM": "mode", "-MD": "with_deps", "-MMD": "with_deps", "-MP": "ignored", "--keep": "keep", "-keep": "keep",
    "--dryrun": "dryrun", "-dryrun": "dryrun", "--version": "query", "-V": "query", "--list-gpu-arch": "query",
    "--list-gpu-code": "query", "-objtemp": "ignored", "-lineinfo": "flag", "--generate-line-info": "flag", "-G": "flag",
    "-g": "flag", "-w": "flag", "-use_fast_math": "flag", "--use_fast_math": "flag", "-m64": "flag", "-v": "ignored",
    "--expt-relaxed-constexpr": "flag", "--expt-extended-lambda": "flag", "-extended-lambda": "flag", "-res-usage": "flag",
    "-allow-unsupported-compiler": "flag", "--allow-unsupported-compiler": "flag", "-no-compress": "flag", "-dlto": "flag",
}  # fmt: skip
SPLIT_BY_COMMA = ("include", "system", "define", "undefine", "preinclude")  # also -Xcompiler, where the pieces stay together


class Options:
    """nvcc's command line, with NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS around it."""

    def __init__(self, argv: list[str], env: Environment) -> None:
        self.values: dict[str, list[str]] = {}
        self.flags: list[str] = []
        self.macros: list[tuple[str, str]] = []
        self.sources: list[str] = []
        self.problem: CompileError | None = None
        words = [*env.get("NVCC_PREPEND_FLAGS", "").split(), *argv, *env.get("NVCC_APPEND_FLAGS", "").split()]
        while words:
            try:
                words = self._take(words[0], words[1:])
            except CompileError as problem:
                self.problem, words = problem, words[1:]

    def _take(self, word: str, rest: list[str]) -> list[str]:
        if not word.startswith("-") or word == "-":
            self.sources.append(word)
        elif word in ALONE:
            self._keep(ALONE[word], word, word)
        elif word in TAKES_VALUE:
            if not rest:
                raise CompileError(1, f"nvcc fatal   : A value was expected for option '{word}'\n")
            self._keep(TAKES_VALUE[word], word, rest[0])
            return rest[1:]
        elif word.partition("=")[0] in TAKES_VALUE:
            name, _, value = word.partition("=")
            self._keep(TAKES_VALUE[name], name, value)
        elif word[:2] in ("-I", "-D", "-U", "-O", "-L", "-l"):
            self._keep(TAKES_VALUE[word[:2]], word[:2], word[2:])
        else:
            raise CompileError(1, f"nvcc fatal   : Unknown option '{word}'\n")
        return rest

    def _keep(self, kind: str, name: str, value: str) -> None:
        values = [piece for piece in value.split(",") if piece] if kind in SPLIT_BY_COMMA else [value]
        self.values.setdefault(kind, []).extend(values)
        if kind in ("define", "undefine"):
            self.macros += [(kind, piece) for piece in values]
        elif kind == "flag":
            self.flags.append(name if name == value else f"{name} {value}")

    def last(self, kind: str, default: str = "") -> str:
        return self.values.get(kind, [default])[-1]

    @property
    def mode(self) -> str:
        return self.last("mode", "link")

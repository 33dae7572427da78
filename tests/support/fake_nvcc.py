"""This module is a fake nvcc: a real executable whose object is a pure function of what the real one's would depend on.

It reads arguments and environment as nvcc 13 does, preprocesses once per virtual architecture and once for the host, and writes an
ELF object that holds the expanded text of every pass, the flags, and the bytes of the toolkit's tools. Tests read markers in it, and
`expected_object` computes it inside the test's own process. Without `--keep` the object holds the process id, as nvcc's does.

    FAKE_NVCC_LOG           one JSON line per call: kind (compile, scan, dryrun, query), argv, cwd, start, end, pid, source
    FAKE_NVCC_FAULT         crash | hang | truncate | empty-object | no-object | no-depfile | empty-depfile | half-depfile
                            | edit:PATH | edit-once:PATH | slow:SECONDS, for compiling calls only
    FAKE_NVCC_FAULT_SOURCE  only for this source, by its file name
"""

import os
import sys
import time
import zlib
from _json import encode_basestring_ascii as quote_json
from _signal import SIG_DFL, SIGINT, SIGKILL, signal
from struct import pack

from fake_cpp import CompileError, Macros, Pass, SearchPath
from fake_options import Environment, Options

MARK = b"\nFAKE "
"""What a program of a test is told apart by stands behind this, at its end."""
TOOLS = ("bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvcc.profile", "nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc")
# Read by the real tools straight from the environment, because nvcc.profile says `+=` or because the tool itself looks.
TOOL_VARIABLES = ("PTXAS_FLAGS", "CUDAFE_FLAGS", "NVVM_FLAGS", "OCG_FLAGS", "GCC_EXEC_PREFIX", "COMPILER_PATH")

# Debug information and line tables name the folder of the compile.
HOLDS_FOLDER = ("-lineinfo", "--generate-line-info", "-G", "-g", "-Xcompiler -g", "--compiler-options -g")


class Call:
    """One run: everything it may look at is an argument, so that a test can ask what it would do."""

    def __init__(self, nvcc: str, version: str, archs: str, argv: list[str], cwd: str, env: Environment) -> None:
        self.here = os.path.dirname(os.path.join(cwd, nvcc))
        self.top = f"{self.here}/.."
        self.version, self.known_archs = version, archs.split()
        self.argv, self.cwd, self.env = argv, cwd, env
        self.options = Options(argv, env)
        self.source = self.options.sources[0] if self.options.sources else ""

    @property
    def kind(self) -> str:
        if "query" in self.options.values:
            return "query"
        if "dryrun" in self.options.values:
            return "dryrun"
        return "scan" if self.options.mode in ("-M", "-MM", "-E") else "compile"

    def path(self, spelled: str) -> str:
        return os.path.join(self.cwd, spelled)

    # What the command line means

    def gencodes(self) -> list[tuple[str, list[str]]]:
        """Virtual architecture and the codes made from it, in the order of the command line."""
        found = []
        for text in self.options.values.get("gencode", []):
            virtual, _, codes = text.removeprefix("arch=").partition(",code=")
            found.append((virtual, codes.strip("[]\"'").split(",") if codes else [virtual]))
        arch = self.options.last("arch", "" if found else "sm_75")
        if arch == "native":
            self.warning = "nvcc warning : Cannot find valid GPU for '-arch=native', default arch is used\n"
            arch = "sm_75"
        elif arch in ("all", "all-major"):
            return [(f"compute_{known}", [f"sm_{known}"]) for known in self.known_archs]
        if arch:
            codes = self.options.values.get("code") or [arch, f"compute_{arch.partition('_')[2]}"]
            found.append((f"compute_{arch.partition('_')[2]}", codes))
        for virtual, codes in found:
            for name in (virtual, *codes) if not arch else (arch,):
                if name.partition("_")[2].rstrip("af") not in self.known_archs:
                    raise CompileError(1, f"nvcc fatal   : Unsupported gpu architecture '{name}'\n")
        return found

    warning = ""

    def virtual_archs(self) -> list[str]:
        return list(dict.fromkeys(virtual for virtual, _ in self.gencodes()))

    def arch_list(self) -> str:
        return ",".join(f"{virtual.partition('_')[2].rstrip('af')}0" for virtual in self.virtual_archs())

    def is_cuda(self) -> bool:
        return self.source.endswith(".cu") or self.options.last("language") == "cu"

    def include_folder(self) -> str:
        """As the real nvcc.profile spells it: an installed toolkit has targets/, one from a package index has not."""
        target = "targets/x86_64-linux" if os.path.isdir(f"{self.top}/targets/x86_64-linux/include") else ""
        return f"{self.top}/{target}/include"

    def has_profile(self) -> bool:
        """nvcc reads its profile beside the name it was called by, without following links."""
        return os.path.isfile(f"{self.here}/nvcc.profile")

    def host_compiler(self) -> str:
        chosen = self.options.last("ccbin", self.env.get("NVCC_CCBIN", ""))
        if chosen and os.path.isdir(self.path(chosen)):
            chosen = os.path.join(chosen, "gcc")
        if chosen and "/" in chosen:
            found = self.path(chosen)
            return found if os.access(found, os.X_OK) else ""
        for folder in [self.here, *self.env.get("PATH", "").split(":")]:
            if os.access(f"{folder}/{chosen or 'gcc'}", os.X_OK):
                return f"{folder}/{chosen or 'gcc'}"
        return ""

    def check_host_compiler(self) -> str:
        compiler = self.host_compiler()
        if not compiler:
            chosen = self.options.last("ccbin", self.env.get("NVCC_CCBIN", "gcc"))
            text = f"{chosen}: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties.\n"
            raise CompileError(1, text)
        return compiler

    def profile_folders(self, variable: str, option: str) -> list[str]:
        words = self.env.get(variable, "").replace('"', " ").split()
        joined = " ".join(words).replace(f"{option} ", option).split()
        return [word.removeprefix(option) for word in joined]

    def search(self) -> SearchPath:
        options, env, include = self.options.values, self.env, self.include_folder()
        bracket = options.get("include", []) + self.profile_folders("INCLUDES", "-I")
        system = options.get("system", []) + self.profile_folders("SYSTEM_INCLUDES", "-isystem")
        if self.has_profile():
            bracket, system = [*bracket, include], [*system, f"{include}/cccl"]
        # In gcc's two variables an empty entry is the working folder.
        bracket += [entry or "." for entry in env["CPATH"].split(":")] if env.get("CPATH") else []
        system += [entry or "." for entry in env["CPLUS_INCLUDE_PATH"].split(":")] if env.get("CPLUS_INCLUDE_PATH") else []
        return SearchPath(self.cwd, options.get("quote", []), bracket, system)

    def macros(self) -> Macros:
        now = self.env.get("SOURCE_DATE_EPOCH") or str(time.time_ns())
        macros = {"__NVCC__": "1", "__cplusplus": "201703L", "__DATE__": f'"{now}"', "__TIME__": f'"{now}"'}
        if self.is_cuda():
            macros.update(__CUDACC__="1", __CUDA_ARCH_LIST__=self.arch_list())
        for kind, text in self.options.macros:
            name, _, value = text.partition("=")
            if kind == "define":
                macros[name] = value if "=" in text else "1"
            else:
                macros.pop(name, None)
        return macros

    # The passes, and what is written from them

    def preprocess(self) -> list[tuple[str, Pass]]:
        search, macros = self.search(), self.macros()
        passes = [(virtual, {"__CUDA_ARCH__": f"{virtual.partition('_')[2].rstrip('af')}0"}) for virtual in self.virtual_archs()]
        done = []
        for name, extra in [*(passes if self.is_cuda() else []), ("host", {})]:
            one = Pass(search, {**macros, **extra})
            if not os.path.exists(self.path(self.source)):
                text = f"cc1plus: fatal error: {self.source}: No such file or directory\ncompilation terminated.\n"
                raise CompileError(1, text)
            one.reads.append(self.source)
            for header in (["cuda_runtime.h"] if self.is_cuda() else []) + self.options.values.get("preinclude", []):
                found = search.find(header, True, "")
                if found is None:
                    raise CompileError(1, f"cc1plus: fatal error: {header}: No such file or directory\ncompilation terminated.\n")
                one.read(found)
            one.read(self.source)
            done.append((name, one))
        return done

    def object_payload(self, passes: list[tuple[str, Pass]]) -> bytes:
        options = self.options
        lines = [f"source {self.source}", f"mode {options.mode}"]
        lines += [f"flag {flag}" for flag in options.flags]
        lines += [f"{kind} {text}" for kind, text in options.macros]
        lines += [f"code {virtual} {' '.join(codes)}" for virtual, codes in self.gencodes()]
        lines += [f"env {name}={self.env[name]}" for name in TOOL_VARIABLES if self.env.get(name)]
        compiler = self.host_compiler()
        lines += ["host compiler", *self._small_file(compiler)]
        for tool in TOOLS:
            lines += [f"tool {tool}", *self._small_file(f"{self.top}/{tool}")]
        for name, one in passes:
            lines += [f"pass {name}", *one.lines]
        if any(flag in HOLDS_FOLDER for flag in options.flags):
            lines.append(f"folder {self.cwd}")
        if "keep" not in options.values:
            lines.append(f"tmpxft_{os.getpid():08x}_{time.time_ns()}")
        text = "\n".join(lines).encode("utf-8", "surrogateescape")
        return b"FAKEOBJ\n%08x\n" % zlib.crc32(text) + text + b"\n"

    def _small_file(self, path: str) -> list[str]:
        """The text of a stand-in tool, or what a program says of itself at its end; a real compiler takes too long, and no test changes it."""
        try:
            if os.path.getsize(path) > 100_000:
                return []
            with open(path, "rb") as file:
                content = file.read()
        except OSError:
            return ["missing"]
        if content.startswith(b"\x7fELF"):
            return [f"program {content.rpartition(MARK)[2].decode('utf-8', 'surrogateescape')}"]
        return [line for line in content.decode("utf-8", "surrogateescape").split("\n") if line]

    def depfile(self, passes: list[tuple[str, Pass]]) -> str:
        """nvcc's own format: the target raw, one file a line as spelled, a space escaped, a backslash turned into a slash."""
        target = self.options.last("target", self.options.last("output", f"{self._stem()}.o"))
        reads = dict.fromkeys(name for _, one in passes for name in one.reads)
        escaped = [name.replace("\\", "/").replace(" ", "\\ ") for name in reads]
        return f"{target} : " + " \\\n    ".join(escaped) + "\n"

    def _stem(self) -> str:
        return os.path.splitext(os.path.basename(self.source))[0]

    def run(self) -> int:
        options, fault = self.options, _fault(self.env, self.source)
        self.check_host_compiler()
        if fault.startswith("slow:"):
            time.sleep(float(fault[5:]))
        passes = self.preprocess()
        for warning in dict.fromkeys(text for _, one in passes for text in one.warnings):
            sys.stderr.write(warning)
        if self.kind == "scan":
            text = "\n".join(passes[0][1].lines) + "\n" if options.mode == "-E" else self.depfile(passes)
            self._write(options.last("output", options.last("depfile")), text)
            return 0
        temp = self.env.get("TMPDIR", "/tmp")
        if not os.path.isdir(temp):
            raise CompileError(1, f"nvcc fatal   : Could not open output file '{temp}/tmpxft_{os.getpid():08x}_00000000-1'\n")
        self._keep_intermediates(passes)
        output = self.path(options.last("output", f"{self._stem()}.o"))
        if "with_deps" in options.values and fault != "no-depfile":
            text = self.depfile(passes)
            text = text[: text.find(":") + 1] + "\n" if fault == "empty-depfile" else text
            text = text[: len(text) // 2] if fault == "half-depfile" else text
            self._write(options.last("depfile", f"{os.path.splitext(output)[0]}.d"), text)
        mistakes = [mistake for _, one in passes for mistake in one.mistakes]
        if mistakes:
            texts = "".join(dict.fromkeys(mistake.text for mistake in mistakes))
            raise CompileError(mistakes[0].code, f'{texts}1 error detected in the compilation of "{self.source}".\n')
        data = elf(self.object_payload(passes))
        if fault == "half-depfile":
            return 1
        if fault == "hang":
            return _hang(self, temp)
        if fault.startswith(("edit:", "edit-once:")):
            _edit(fault.partition(":")[2], once=fault.startswith("edit-once:"))
        if fault != "no-object":
            _put(output, b"" if fault == "empty-object" else data[: len(data) // 2] if fault in ("truncate", "crash") else data)
        if fault == "crash":
            _log(self.env, self.log_line(time.time()))
            os.kill(os.getpid(), SIGKILL)
        return 0

    def _keep_intermediates(self, passes: list[tuple[str, Pass]]) -> None:
        if "keep" not in self.options.values:
            return
        folder = self.path(self.options.last("keep_dir", "."))
        if not os.path.isdir(folder):
            name = f"{self.options.last('keep_dir')}/{self._stem()}.cpp4.ii"
            raise CompileError(1, f"cc1plus: fatal error: opening output file {name}: No such file or directory\n")
        for name, one in passes:
            _put(f"{folder}/{self._stem()}.{name}.ii", "\n".join(one.lines).encode("utf-8", "surrogateescape"))

    def _write(self, path: str, text: str) -> None:
        if path:
            _put(self.path(path), text.encode("utf-8", "surrogateescape"))
        else:
            sys.stdout.write(text)

    started = 0.0

    def log_line(self, end: float, child: int = 0) -> str:
        argv = ", ".join(quote_json(word) for word in self.argv)
        return (
            f'{{"kind": "{self.kind}", "source": {quote_json(self.source)}, "argv": [{argv}], "cwd": {quote_json(self.cwd)}, '
            f'"start": {self.started!r}, "end": {end!r}, "pid": {os.getpid()}, "child": {child}}}\n'
        )


def elf(payload: bytes) -> bytes:
    """A relocatable ELF file with one section, so that ar, the linker and objcopy take it, and a cut is seen at its end."""
    names = b"\0.fake\0.shstrtab\0"
    padding = -len(payload + names) % 8
    sections = 64 + len(payload) + len(names) + padding
    header = b"\x7fELF\2\1\1" + bytes(9) + pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, sections, 0, 64, 0, 0, 64, 3, 2)
    table = bytes(64) + pack("<IIQQQQIIQQ", 1, 1, 0, 0, 64, len(payload), 0, 0, 1, 0)
    table += pack("<IIQQQQIIQQ", 7, 3, 0, 0, 64 + len(payload), len(names), 0, 0, 1, 0)
    return header + payload + names + bytes(padding) + table


def expected_object(
    nvcc: str, version: str, archs: str, argv: list[str], cwd: str, env: Environment
) -> tuple[int, bytes | None, list[str]]:
    """What a run would give: exit code, object (none after a failure), and the files it reads as spelled."""
    try:
        call = Call(nvcc, version, archs, argv, cwd, env)
        if call.options.problem:
            raise call.options.problem
        call.check_host_compiler()
        passes = call.preprocess()
    except CompileError as error:
        return error.code, None, []
    reads = list(dict.fromkeys(name for _, one in passes for name in one.reads))
    mistakes = [mistake for _, one in passes for mistake in one.mistakes]
    return (mistakes[0].code, None, reads) if mistakes else (0, elf(call.object_payload(passes)), reads)


def _put(path: str, data: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise CompileError(1, f"Fatal error: can't create {path}: {error.strerror}\n") from error


def _fault(env: Environment, source: str) -> str:
    only = env.get("FAKE_NVCC_FAULT_SOURCE")
    return "" if only and only != os.path.basename(source) else env.get("FAKE_NVCC_FAULT", "")


def _edit(path: str, once: bool) -> None:
    with open(path, "a+", encoding="utf-8") as file:
        file.seek(0)
        if not (once and "MEANWHILE" in file.read()):
            file.write("int MEANWHILE;\n")


def _hang(call: Call, temp: str) -> int:
    """Waits for a child, as nvcc waits for cicc: SIGINT to this process alone is ignored; after one to the group the child dies,
    and the temporary file is removed. SIGTERM or SIGKILL to this process alone leaves the child behind."""
    temporary = f"{temp}/tmpxft_{os.getpid():08x}_00000000-1"
    _put(temporary, b"")
    signal(SIGINT, lambda number, frame: None)
    child = os.fork()
    if child == 0:
        signal(SIGINT, SIG_DFL)
        os.execv("/bin/sleep", ["cicc", "60"])
    _log(call.env, call.log_line(time.time(), child))
    os.waitpid(child, 0)
    os.remove(temporary)
    return 2


def _log(env: Environment, line: str) -> None:
    if env.get("FAKE_NVCC_LOG"):
        file = os.open(env["FAKE_NVCC_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, line.encode())
        os.close(file)


def main(version: str, archs: str) -> int:
    signal(SIGINT, SIG_DFL)
    call = Call(sys.argv[0], version, archs, sys.argv[1:], os.getcwd(), dict(os.environ))
    call.started = time.time()
    try:
        if call.options.problem:
            raise call.options.problem
        if call.kind == "query":
            code = _answer(call)
        elif call.kind == "dryrun":
            from fake_dryrun import dryrun

            code = dryrun(call)
        elif not call.source:
            raise CompileError(1, "nvcc fatal   : No input files specified; use option --help for more information\n")
        else:
            code = call.run()
    except CompileError as error:
        sys.stderr.write(error.text)
        code = error.code
    sys.stderr.write(call.warning)
    _log(call.env, call.log_line(time.time()))
    return code


def _answer(call: Call) -> int:
    if "--version" in call.argv or "-V" in call.argv:
        release = ".".join(call.version.split(".")[:2])
        print("nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation")
        print("Built on Wed_Aug_20_01:58:59_PM_PDT_2025")
        print(f"Cuda compilation tools, release {release}, V{call.version}\nBuild cuda_{release}.r{release}/compiler.1_0")
    else:
        prefix = "compute" if "--list-gpu-arch" in call.argv else "sm"
        print("\n".join(f"{prefix}_{arch}" for arch in call.known_archs))
    return 0

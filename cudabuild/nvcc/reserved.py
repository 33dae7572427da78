"""This module is the nvcc options that a user may not give: they have fields of their own, or are cudabuild's to give.

nvcc accepts each option in exactly two spellings, without abbreviations, and its value behind `=` or as the next
argument (seen with 13.0); so names are compared whole.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from cudabuild.config.schema import BuildConfig
from cudabuild.errors import ConfigError
from cudabuild.host import Environment
from cudabuild.nvcc.quoting import refuse

VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")

_OURS = "remove it: cudabuild itself says what is made and where it goes"
_DEVICE_LINK = "remove it: relocatable device code and link-time optimization come with a later release"

# Decide what nvcc makes and where it goes. In NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS they would do so behind our
# back.
_OUTPUT_NAMES = """
    -o --output-file -odir --output-directory -objtemp --objdir-as-tempdir -c --compile -dc --device-c -dw --device-w
    -E --preprocess -cuda --cuda -cubin --cubin -fatbin --fatbin -ptx --ptx -optix-ir --optix-ir -ltoir --ltoir -dlink
    --device-link -link --link -lib --lib -run --run -r --relocatable-link -M --generate-dependencies -MM
    --generate-nonsystem-dependencies -MD --generate-dependencies-with-compile -MMD
    --generate-nonsystem-dependencies-with-compile -MF --dependency-output -MP --generate-dependency-targets -MT
    --dependency-target-name -keep --keep -keep-dir --keep-dir -save-temps --save-temps -clean --clean-targets -time
    --time -hls --host-linker-script -dryrun --dryrun -optf --options-file -h --help -V --version -code-ls
    --list-gpu-code -arch-ls --list-gpu-arch
"""
OUTPUT = frozenset(_OUTPUT_NAMES.split())

_CURES = {
    **dict.fromkeys(OUTPUT, _OURS),
    **dict.fromkeys(("-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code"),
                    'use the field `arch`, as in arch = ["80", "compute_90"], or --arch'),
    **dict.fromkeys(("-ccbin", "--compiler-bindir"), "use the field `host-compiler`, --host-compiler or NVCC_CCBIN"),
    **dict.fromkeys(("-std", "--std"), 'use the field `std`, as in std = "c++17"'),
    **dict.fromkeys(("-cudart", "--cudart"), 'use the field `cudart`: "static", "shared" or "none"'),
    **dict.fromkeys(("-x", "--x"), "name the file so that it says what it is: .cu, .cpp, .cc or .c"),
    **dict.fromkeys(("-rdc", "--relocatable-device-code", "-dlto", "--dlink-time-opt", "-lto", "--lto",
                     "-ewp", "--extensible-whole-program"), _DEVICE_LINK),
}  # fmt: skip

# The other options whose value may be the next argument, so that it is not taken for an option itself.
_VALUE_NAMES = """
    -include --pre-include -l --library -D --define-macro -U --undefine-macro -I --include-path -isystem
    --system-include -L --library-path -arbin --archiver-binary -cudadevrt --cudadevrt -ldir --libdevice-directory
    -target-dir --target-directory -opt-info --optimization-info -O --optimize -Ofc --Ofast-compile -dopt --dopt
    -ftemplate-backtrace-limit --ftemplate-backtrace-limit -ftemplate-depth --ftemplate-depth -m --machine -Xcompiler
    --compiler-options -Xlinker --linker-options -Xarchive --archive-options -Xptxas --ptxas-options -Xnvlink
    --nvlink-options -Xcudafe -Xcicc -Xfatbin -static-global-template-stub --static-global-template-stub
    -device-entity-has-hidden-visibility --device-entity-has-hidden-visibility -t --threads -split-compile
    --split-compile -split-compile-extended --split-compile-extended -fdevice-time-trace --fdevice-time-trace
    -run-args --run-args -idp --input-drive-prefix -ddp --dependency-drive-prefix -dp --drive-prefix -e --entries
    -maxrregcount --maxrregcount -ftz --ftz -prec-div --prec-div -prec-sqrt --prec-sqrt -fmad --fmad -default-stream
    --default-stream -Werror --Werror -qpp-config --qpp-config -diag-error --diag-error -diag-suppress --diag-suppress
    -diag-warn --diag-warn -brief-diag --brief-diagnostics -jtd --jump-table-density -device-stack-protector
    --device-stack-protector -compress-mode --compress-mode -frandom-seed --frandom-seed -sanitize --sanitize
"""
_TAKES_VALUE = frozenset(_VALUE_NAMES.split())

# Options that may have their value glued to them, as in -DX or -O3.
_GLUED = ("-D", "-U", "-I", "-L", "-l", "-O", "-t", "-m")
# What would take the output or the dependencies away from nvcc, which runs the host compiler several times over.
_HOST_OUTPUT = ("-o", "-M", "-Wp,-M", "-x")
# What is in such a file decides about the object, and no compiler tells that it was read.
_FLAG_FILE = re.compile(r"(?:^|[=,])(?:@|(?:-optf|--options-file)(?:[=,]|$))")
# Options of the host compiler that make it read files, or search folders in an order, of which no compiler tells.
_UNSEEN = {
    **dict.fromkeys(("-specs", "--specs"), "write out the options that the file adds"),
    **dict.fromkeys(("-B", "-wrapper", "-fplugin"), "name the compiler that is to run in `host-compiler`"),
    **dict.fromkeys(("-fprofile-use", "-fauto-profile", "-fbranch-probabilities"),
                    "remove it: nothing would notice when the profile changes"),
    **dict.fromkeys(("--include-d", "-iprefix", "-iwithprefix", "-I-"), "use the fields `include` and `system-include`"),
}  # fmt: skip
_HOST_OPTIONS = ("-Xcompiler", "--compiler-options")
_WRITE_OUT = "remove it and write its flags out: nothing would notice when the file says something else"


def check(config: BuildConfig, env: Environment) -> None:
    """Raise ConfigError for any flag, from the configuration or nvcc's own variables, that cannot be passed on."""
    where = f"{config.config_file}: flags (or --flag)"
    for flag in config.flags:
        refuse("flag", flag, where)
    refuse_flags(config.flags, where)
    refuse_host_flags(config.host_flags, f"{config.config_file}: host-flags (or --host-flag)")
    for name in VARIABLES:
        refuse_variable(name, env.get(name) or "")


def refuse_flags(flags: Sequence[str], where: str) -> None:
    """Raise ConfigError for what may not stand in `flags`."""
    _refuse_flag_files(flags, where)
    _refuse_unseen(_for_host(flags), where)
    for flag in _options(flags):
        name = flag.partition("=")[0]
        if cure := _CURES.get(name):
            raise ConfigError(f"{where}: {flag!r} may not be given as a flag", cure)
        if not flag.startswith("-"):
            raise ConfigError(
                f"{where}: {flag!r} is no option, and nvcc would take it for one more input file",
                "if it is the value of the flag before it, join the two with `=`; files belong in `sources` or `link`",
            )
        if " " in name and not name.startswith(_GLUED):
            raise ConfigError(
                f"{where}: {flag!r} is one argument, with a space in it", "write one string for each argument"
            )


def _refuse_unseen(host_flags: Iterable[str], where: str) -> None:
    for flag in host_flags:
        for option, cure in _UNSEEN.items():
            if flag.startswith(option):
                raise ConfigError(f"{where}: {flag!r} makes the host compiler use what cudabuild cannot see", cure)


def _for_host(arguments: Iterable[str]) -> Iterator[str]:
    """What nvcc hands on to the host compiler, by -Xcompiler or because it does not know it."""
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _HOST_OPTIONS:
            yield from re.split(r"""[\s,'"\\]+""", value if equals else next(words, ""))
        elif word in _TAKES_VALUE:
            next(words, None)
        elif name not in _TAKES_VALUE:
            yield word


def refuse_host_flags(flags: Sequence[str], where: str) -> None:
    """Raise ConfigError for what may not stand in `host-flags`."""
    _refuse_flag_files(flags, where)
    for flag in flags:
        _refuse_unseen(flag.split(",") if flag.startswith("-Wp,") else [flag], where)
    for flag in flags:
        if flag.startswith("-std="):
            raise ConfigError(f"{where}: {flag!r} may not be given as a host flag", _CURES["-std"])
        if flag in ("-c", "-S", "-E") or flag.startswith(_HOST_OUTPUT):
            raise ConfigError(f"{where}: {flag!r} may not be given as a host flag", _OURS)


def refuse_variable(name: str, value: str) -> None:
    """Raise ConfigError if NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS sends nvcc's output elsewhere; everything else in
    them, architectures too, is left to the user."""
    try:
        words = shlex.split(value)
    except ValueError:
        words = value.split()  # unbalanced quotes: nvcc will say so itself
    _refuse_flag_files(words, name)
    _refuse_unseen(_for_host(words), name)
    for flag in _options(words):
        if flag.partition("=")[0] in OUTPUT:
            raise ConfigError(
                f"{name} holds {flag!r}, which changes what nvcc makes or where it goes", f"remove it from {name}"
            )


def _refuse_flag_files(flags: Iterable[str], where: str) -> None:
    for flag in flags:
        if _FLAG_FILE.search(flag) and not flag.startswith(("-D", "--define-macro")):
            raise ConfigError(f"{where}: {flag!r} names a file of more flags", _WRITE_OUT)


def _options(arguments: Iterable[str]) -> Iterator[str]:
    """The arguments that are not values of the one before."""
    words = iter(arguments)
    for word in words:
        yield word
        if word in _TAKES_VALUE:
            next(words, None)

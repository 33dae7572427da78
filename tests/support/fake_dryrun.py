"""This module prints what nvcc 13 prints for --dryrun: variables, then each step's command line, all on stderr behind `#$ `."""

import os
import sys

TYPE_CHECKING = False  # `typing` itself would be half of the fake's start-up time
if TYPE_CHECKING:
    from fake_nvcc import Call


def dryrun(call: "Call") -> int:
    gencodes = call.gencodes()  # an unknown architecture stops here, as in nvcc
    call.check_host_compiler()
    lines = [*_variables(call), *(_steps(call, gencodes) if call.is_cuda() else [])]
    sys.stderr.write("".join(f"#$ {line}\n" for line in lines))
    return 0


def _variables(call: "Call") -> list[str]:
    given = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
    lines = [f'{name}="{call.env[name]}"' for name in given if call.env.get(name)]
    lines += ["_NVVM_BRANCH_=nvvm", "_SPACE_= ", "_CUDART_=cudart", f"_HERE_={call.here}", f"_THERE_={call.here}"]
    if not call.has_profile():
        return lines
    include, env, top = call.include_folder(), call.env, call.top
    libraries = include.removesuffix("include") + ("lib" if "/targets/" in include else "lib64")
    return [
        *lines,
        "_TARGET_SIZE_=64",
        f"TOP={top}",
        f"CICC_PATH={top}/nvvm/bin",
        f"NVVMIR_LIBRARY_DIR={top}/nvvm/libdevice",
        f"LD_LIBRARY_PATH={top}/lib:{env.get('LD_LIBRARY_PATH', '')}",
        f"PATH={top}/nvvm/bin:{call.here}:{env.get('PATH', '')}",
        f'INCLUDES={env.get("INCLUDES", "")}"-I{include}"  ',
        f'SYSTEM_INCLUDES={env.get("SYSTEM_INCLUDES", "")}"-isystem" "{include}/cccl"  ',
        f'LIBRARIES=  "-L{libraries}/stubs" "-L{libraries}"',
        f"CUDAFE_FLAGS={env.get('CUDAFE_FLAGS', '')}",
        f"PTXAS_FLAGS={env.get('PTXAS_FLAGS', '')}",
    ]


def _steps(call: "Call", gencodes: list[tuple[str, list[str]]]) -> list[str]:
    options, source, stem = call.options, call.source, os.path.splitext(os.path.basename(call.source))[0] or "null"
    folder = options.last("keep_dir", ".") if "keep" in options.values else f"/tmp/tmpxft_{os.getpid():08x}_00000000-0"
    base, include, archs = f"{folder}/{stem}", call.include_folder(), call.virtual_archs()
    chosen = options.last("ccbin", call.env.get("NVCC_CCBIN", ""))
    gcc = f'"{os.path.dirname(chosen)}"/{os.path.basename(chosen)}' if "/" in chosen else chosen or "gcc"
    words = [flag for flag in options.flags if flag.startswith(("-O ", "-Xcompiler ", "--compiler-options "))]
    host = " ".join("-O" + flag[3:] if flag.startswith("-O ") else flag.partition(" ")[2].replace(",", " ") for flag in words)
    std = "".join(f"-std={flag.partition(' ')[2]} " for flag in options.flags if flag.startswith(("-std ", "--std ")))
    folders = " ".join(f'-I"{name}"' for name in options.values.get("include", []))
    folders += f' "-I{include}"   ' + " ".join(f'-isystem "{name}"' for name in options.values.get("system", []))
    folders += f' "-isystem" "{include}/cccl"   '
    macros = " ".join(f'-{"D" if kind == "define" else "U"} "{_escaped(text)}"' for kind, text in options.macros)
    major, minor, build = (call.version.split(".") + ["0", "0"])[:3]
    macros += f" -D__CUDACC_VER_MAJOR__={major} -D__CUDACC_VER_MINOR__={minor} -D__CUDACC_VER_BUILD__={build}"
    last = '-include "cuda_runtime.h" -m64'
    lists = f"-D__CUDA_ARCH_LIST__={call.arch_list()}"
    front = f'--c++17 --orig_src_file_name "{source}" --orig_src_path_name "{os.path.realpath(call.path(source))}" --allow_managed'

    def preprocess(arch: str, output: str) -> str:
        device = f"-D__CUDA_ARCH__={arch.partition('_')[2].rstrip('af')}0 " if arch else ""
        double = " -DCUDA_DOUBLE_MATH_FUNCTIONS" if arch else ""
        start = f"{gcc} {std}{device}{lists} -E -x c++ {double} -D__CUDACC__ -D__NVCC__  {host} {folders} {macros}"
        return f'{start} {last} "{source}" -o "{output}" '

    expansions = [preprocess(arch, f"{base}.{arch}.cpp1.ii") for arch in archs]
    expansions.append(preprocess("", f"{base}.cpp4.ii"))
    if options.mode in ("-M", "-MM"):
        return [*expansions, "-- Filter Dependencies --"]
    lines = list(expansions)
    if "with_deps" in options.values:
        lines.append(f"-- Filter Dependencies -- > {options.last('depfile', f'{stem}.d')}")
    lines.append(f'cudafe++ {front}  --m64 --parse_templates --gen_c_file_name "{base}.cudafe1.cpp" "{base}.cpp4.ii" ')
    images = ""
    for virtual, codes in gencodes:
        lines.append(f'"$CICC_PATH/cicc" {front}   -arch {virtual} -m64 "{base}.{virtual}.cpp1.ii" -o "{base}.{virtual}.ptx"')
        for code in codes:
            number = code.partition("_")[2]
            if code.startswith("sm_"):
                lines.append(f'ptxas -arch={code} -m64  "{base}.{virtual}.ptx"  -o "{base}.{virtual}.cubin" ')
                images += f'"--image3=kind=elf,sm={number},file={base}.{virtual}.cubin" '
            else:
                images += f'"--image3=kind=ptx,sm={number},file={base}.{virtual}.ptx" '
    lines.append(f'fatbinary --create="{base}.fatbin" -64 {images}--embedded-fatbin="{base}.fatbin.c" ')
    output = options.last("output", f"{stem}.o")
    lines.append(f'{gcc} {std}{lists} -c -x c++  {host} -Wno-psabi {folders} -m64 "{base}.cudafe1.cpp" -o "{output}" ')
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

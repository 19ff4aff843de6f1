"""Builds stub CANN libraries for one torch_npu: `python build.py SITE_PACKAGES FOLDER`; needs gcc and binutils.

All symbols live in one libfakecann.so. Every library that torch_npu needs or opens by name is a thin one that needs
that one in turn, because dlsym on a handle searches its dependencies too.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("cann.c")
TOOLS = ("gcc", "nm", "readelf")

_OURS = re.compile(
    r"(acl|Hccl|Hcom|hcom|Msprof|rt[A-Z]|hal|_ZN?K?2ge|_ZN?K?3atb|_ZNK?2ge|_ZNK?3atb|_ZT[VIS]N2ge|_ZT[VIS]N3atb"
    r"|_ZN9ascend).*|snprintf_s|vsnprintf_s|strcpy_s|_Z.*2ge.*"
)
_BY_NAME = re.compile(
    rb"(?:aclrt|aclmdl|aclop|aclprof|aclsys|acltdt|aclnn|aclCreate|aclDestroy|aclGet|aclSet|aclDump|Hccl[A-Z]|Hcomm)"
    rb"[A-Za-z0-9_]+"
)
_SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|python.*)\.so.*|ld-linux.*)")
_OPENED = (
    "libopapi.so",
    "libaclnn_math.so",
    "libaclnn_ops_infer.so",
    "libaclnn_ops_train.so",
    "libaclnn_rand.so",
    "libaclnn_fft.so",
    "libaclnn_sparse.so",
    "libnnopbase.so",
    "libruntime.so",
    "libprofapi.so",
    "libascend_hal.so",
)
"""What torch_npu opens with dlopen."""


def missing_tools() -> list[str]:
    """The programs that a build needs and this machine lacks."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def build(packages: Path, folder: Path, *, without: Collection[str] = ()) -> Path:
    """Write the libraries for the torch_npu in `packages` to `folder`; `without` names symbols to leave out."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = [path for path in (packages / "torch_npu").rglob("*.so*") if path.is_file()]
    theirs = list((packages / "torch/lib").glob("*.so*"))
    beside = list(packages.glob("torch_npu.libs/*"))
    provided = {name for path in (*ours, *theirs, *beside) for name in _symbols(path, "--defined-only")}
    wanted = {name for path in ours for name in _symbols(path, "--undefined-only") if _OURS.fullmatch(name)} - provided
    wanted |= {name for path in ours for name in _named(path)}

    written = folder / "cann.o"
    _run("gcc", "-O1", "-fPIC", "-w", "-c", str(SOURCE), "-o", str(written))
    by_hand = set(_symbols(written, "--defined-only", dynamic=False))
    stubs = folder / "stubs.c"
    stubs.write_text(
        "int fake_rc(const char*);\n" + "".join(map(_stub, sorted(wanted - by_hand - set(without)))), encoding="utf-8"
    )
    core = folder / "libfakecann.so"
    hidden = folder / "exported.map"
    hidden.write_text("{ local: " + "".join(f"{name}; " for name in sorted(without)) + "};\n", encoding="utf-8")
    only = [f"-Wl,--version-script={hidden}"] if without else []
    _run(
        *("gcc", "-O0", "-fPIC", "-w", "-shared", "-Wl,-soname,libfakecann.so", *only, str(written), str(stubs)),
        *("-o", str(core), "-lpthread"),
    )
    for name in sorted({*_libraries(ours, theirs), *_OPENED}):
        _thin(folder, name)
    for path in (written, stubs, hidden):
        path.unlink()
    return folder


def _thin(folder: Path, name: str) -> None:
    _run(
        *("gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", "-x", "c"),
        *("/dev/null", f"-L{folder}", "-lfakecann", "-o", str(folder / name)),
    )


def _stub(name: str) -> str:
    if re.match(r"_ZT[VIS]", name):
        return f"void *{name}[64];\n"
    return f'long {name}(){{return fake_rc("{name}");}}\n'


def _libraries(ours: Sequence[Path], theirs: Sequence[Path]) -> Iterator[str]:
    """The libraries that torch_npu is linked to and that neither it nor torch nor the system brings."""
    have = {path.name for path in (*ours, *theirs)}
    for path in ours:
        for name in re.findall(r"NEEDED.*\[([^\]]+)\]", _run("readelf", "-d", str(path))):
            if name not in have and not _SYSTEM.fullmatch(name):
                yield name


def _symbols(path: Path, which: str, *, dynamic: bool = True) -> Iterator[str]:
    for line in _run("nm", *(("-D",) if dynamic else ()), which, str(path)).splitlines():
        name = line.split()[-1]
        if "@" not in name or which == "--defined-only":
            yield name.partition("@")[0]


def _named(path: Path) -> set[str]:
    """Names that stand in a library as text: it looks them up with dlsym."""
    words = re.findall(rb"[A-Za-z_][A-Za-z0-9_]{4,}", path.read_bytes())
    return {word.decode() for word in set(words) if _BY_NAME.fullmatch(word)}


def _run(*argv: str) -> str:
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run(argv, capture_output=True, encoding="utf-8", check=True, env=environment).stdout


def main() -> None:
    """Build from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path, metavar="SITE_PACKAGES")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--without", action="append", default=[], metavar="SYMBOL", help="a symbol that is missing")
    args = parser.parse_args()
    build(args.packages, args.folder, without=args.without)
    print(f"LD_LIBRARY_PATH={args.folder}")


if __name__ == "__main__":
    main()

"""Makes npudoctor's archives, each with a Python of its own: `python3.11 -m tools.archive`.

Requires Debian 12 or newer on x86_64 with python3.11, python3-venv, dpkg-dev, patch, make, binutils, perl, tcl, git
(and rpm, for --packages), and a package index; the first run compiles for some ten minutes an architecture. Writes into
dist/, for each architecture, npudoctor-VERSION-linux-ARCH.tar.gz (with an SBOM and licences inside), the same as one
file that unpacks itself (.run), and SHA256SUMS. What is not committed is not in it. A commit has one result.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import time
from pathlib import Path

from tools.archive import cpython, elf, pack, packages, sources, tree, wheelhouse, wheels

ARCHITECTURES = ("x86_64", "aarch64")
MOST_BYTES = 60 << 20


def main() -> int:
    """Build what is asked for; 1 where a file would not run everywhere."""
    parser = argparse.ArgumentParser(
        prog="python3.11 -m tools.archive", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--arch", choices=ARCHITECTURES, action="append", help="only this architecture (default: both)")
    parser.add_argument("--out", type=Path, default=wheels.ROOT / "dist", metavar="DIR", help="where the files go")
    parser.add_argument(
        "--work", type=Path, default=wheels.ROOT / "build" / "archive", metavar="DIR",
        help="where it compiles (2 GB); what is finished there is not compiled again",
    )  # fmt: skip
    parser.add_argument("--update-sources", action="store_true", help="take the newest source packages, and stop")
    parser.add_argument("--packages", action="store_true", help="also write .deb, .rpm and the wheelhouse")
    args = parser.parse_args()
    work, out = args.work.resolve(), args.out.resolve()
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    if args.update_sources:
        sources.update(work)
        return 0
    version, epoch = _version(), _epoch()
    sources.unpack(work)
    python = wheels.tools(work)
    bad = []
    for architecture in args.arch or ARCHITECTURES:
        began = time.monotonic()
        target = cpython.Target(architecture, work, [str(python), "-m", "ziglang"], sources.epoch(work))
        cpython.build_libraries(target)
        interpreter = cpython.build_python(target, str(python))
        own = wheels.build_own(python, work, target.environment() | {"SOURCE_DATE_EPOCH": str(epoch)})
        folder = tree.build(target, python, interpreter, own, version=version, epoch=epoch)
        bad += [f"{architecture}: {row}" for row in problems(folder, architecture)]
        archive = out / f"{folder.name}.tar.gz"
        pack.write_tar(folder, archive, epoch)
        if archive.stat().st_size > MOST_BYTES:
            bad.append(f"{archive.name}: larger than {MOST_BYTES >> 20} MiB")
        pack.write_one_file(archive, out / f"{folder.name}.run", version, architecture)
        if args.packages:
            packages.build(folder, out, version=version, architecture=architecture, epoch=epoch)
            wheelhouse.build(python, work, own, out, version=version, architecture=architecture, epoch=epoch)
        print(f"{archive}: {archive.stat().st_size / (1 << 20):.1f} MiB, {time.monotonic() - began:.0f} s", flush=True)
    pack.write_checksums(out)
    print("\n".join(bad) or f"every ELF file runs on glibc {cpython.GLIBC} and pages of {cpython.PAGE_SIZE >> 10} KiB")
    return 1 if bad else 0


def problems(folder: Path, architecture: str) -> list[str]:
    """Why an unpacked archive would not run on every node of its architecture."""
    glibc = tuple(int(part) for part in cpython.GLIBC.split("."))
    page = cpython.PAGE_SIZE if architecture == "aarch64" else 4096
    return elf.problems(folder, architecture, glibc=glibc, page=page)


def _version() -> str:
    text = (wheels.ROOT / "npudoctor" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.*)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def _epoch() -> int:
    """The time that every file gets: SOURCE_DATE_EPOCH, else that of the last commit."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told:
        return int(told)
    argv = ["git", "-C", str(wheels.ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(argv, check=True, capture_output=True, encoding="utf-8").stdout)


if __name__ == "__main__":
    raise SystemExit(main())

"""Compiles CPython and the libraries that it needs for one architecture against glibc 2.17, with the C compiler of zig.

Everything but glibc itself is linked into one executable: there is no library to find when it runs, so that it runs
from any folder. The extension modules of the standard library are in it too, which also starts faster. What is not
needed stays out: readline and gdbm (licences), tkinter, curses, nis, crypt. mimalloc and jemalloc are in none of it.

Tried instead: a compiler of an old distribution (none can be had offline), and the Python of Debian in a private glibc
(glibc's own plug-ins for users and names would then be those of another release).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

GLIBC = "2.17"
PYTHON = "3.11"
PAGE_SIZE = 65536
"""Bytes. The largest page of an aarch64 kernel (Kylin V10): it maps no segment of a smaller alignment."""

WITHOUT_MODULES = {
    *("_crypt", "_curses", "_curses_panel", "_dbm", "_gdbm", "_tkinter", "_uuid", "nis", "ossaudiodev", "readline"),
    *("_testbuffer", "_testcapi", "_testclinic", "_testimportmultiple", "_testinternalcapi", "_testmultiphase"),
    *("_ctypes_test", "_xxtestfuzz", "_xxsubinterpreters", "xxlimited", "xxlimited_35", "xxsubtype"),
}

_CTYPES = (
    "_ctypes _ctypes/_ctypes.c _ctypes/callbacks.c _ctypes/callproc.c _ctypes/stgdict.c _ctypes/cfield.c "
    "-DHAVE_FFI_PREP_CIF_VAR -DHAVE_FFI_PREP_CLOSURE_LOC -DHAVE_FFI_CLOSURE_ALLOC -I{root}/include "
    "{root}/lib/libffi.a -ldl"
)

_RECIPE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
"""In the marks of what is finished: what another version of this file has compiled is compiled again."""

_SQLITE_OPTIONS = "-DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_MATH_FUNCTIONS"


class Target:
    """The compiler and the folders of one architecture below a work folder."""

    def __init__(self, architecture: str, work: Path, zig: Sequence[str], epoch: int) -> None:
        self.architecture = architecture
        self.triple = f"{architecture}-linux-gnu"
        self.work = work / architecture
        self.root = self.work / "root"
        self.tools = self.work / "tools"
        self._sources = work / "sources"
        self._zig = list(zig)
        self._epoch = epoch
        self._cache = work / "zig-cache"
        for folder in (self.root / "lib", self.root / "include", self.tools):
            folder.mkdir(parents=True, exist_ok=True)
        self._write_tools()

    def _write_tools(self) -> None:
        zig = " ".join(f"'{word}'" for word in self._zig)
        flags = (
            f"-target {self.architecture}-linux-gnu.{GLIBC} -fno-sanitize=undefined -fno-ident -g0 -Wno-date-time "
            f"-ffile-prefix-map='{self.work.parent}'=/build -Wl,-z,max-page-size={PAGE_SIZE}"
        )
        for name, line in (
            ("cc", f'exec {zig} cc {flags} "$@"'),
            ("build-cc", f'exec {zig} cc -target {os.uname().machine}-linux-gnu "$@"'),
            ("ar", f'exec {zig} ar "$@"'),
            ("ranlib", f'exec {zig} ranlib "$@"'),
        ):
            path = self.tools / name
            path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
            path.chmod(0o755)

    def environment(self) -> dict[str, str]:
        """The variables of every command: nothing of this machine's own settings takes part."""
        return {
            "PATH": f"{self.tools}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.work),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "SOURCE_DATE_EPOCH": str(self._epoch),
            "ZIG_GLOBAL_CACHE_DIR": str(self._cache),
            "ZIG_LOCAL_CACHE_DIR": str(self._cache),
            "CC": "cc",  # found in `tools`: a path would be written into what is compiled
            "AR": "ar",
            "RANLIB": "ranlib",
            "CFLAGS": "-O2 -fPIC",
        }

    def run(self, folder: Path, *argv: str, **variables: str) -> None:
        """Run one command there, and show the end of its output when it fails."""
        log = self.work / "log.txt"
        with log.open("ab") as output:
            output.write(f"\n$ cd {folder} && {' '.join(argv)}\n".encode())
            output.flush()
            done = subprocess.run(
                argv,
                cwd=folder,
                env=self.environment() | variables,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]
            raise SystemExit(
                "\n".join([*tail, f"{argv[0]} failed with exit code {done.returncode}; the whole log: {log}"])
            )

    def copy_of(self, name: str) -> Path:
        """A fresh copy of the patched sources of one package."""
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._sources / name, folder, symlinks=True)
        return folder

    def make(self, folder: Path, *words: str, **variables: str) -> None:
        """Run make with as many jobs as there are processors."""
        self.run(folder, "make", f"-j{os.cpu_count() or 1}", *words, **variables)


def build_libraries(target: Target) -> None:
    """Compile zlib, bzip2, xz, libffi, SQLite and OpenSSL as static libraries."""
    for name, build in LIBRARIES.items():
        done = target.work / f"{name}.done"
        if not _is_finished(done):
            print(f"{target.architecture}: {name}", flush=True)
            build(target, target.copy_of(name))
            done.write_text(_RECIPE, encoding="utf-8")


def _is_finished(mark: Path) -> bool:
    return mark.exists() and mark.read_text(encoding="utf-8") == _RECIPE


def _zlib(target: Target, source: Path) -> None:
    target.run(source, "sh", "./configure", "--static", f"--prefix={target.root}", CHOST=target.triple)
    target.make(source, "libz.a")
    _install(target, source, "libz.a", ["zlib.h", "zconf.h"])


def _bzip2(target: Target, source: Path) -> None:
    tools = ("CC=cc", "AR=ar", "RANLIB=ranlib")
    target.make(source, "libbz2.a", *tools, "CFLAGS=-O2 -fPIC -D_FILE_OFFSET_BITS=64")
    _install(target, source, "libbz2.a", ["bzlib.h"])


def _xz(target: Target, source: Path) -> None:
    without = [
        f"--disable-{part}" for part in ("shared", "xz", "xzdec", "lzmadec", "lzmainfo", "scripts", "doc", "nls")
    ]
    target.run(source, "./configure", f"--host={target.triple}", f"--prefix={target.root}", *without)
    target.make(source)
    target.run(source, "make", "install")


def _libffi(target: Target, source: Path) -> None:
    target.run(
        source,
        "./configure",
        f"--host={target.triple}",
        f"--prefix={target.root}",
        "--disable-shared",
        "--disable-docs",
        "--disable-multi-os-directory",
        "--disable-exec-static-tramp",
    )
    target.make(source)
    target.run(source, "make", "install")


def _sqlite(target: Target, source: Path) -> None:
    """The generator of its one C file runs on this machine, and only that file is compiled for the other."""
    native = {"CC": "build-cc", "CFLAGS": "-O1"}
    target.run(source, "./configure", "--disable-shared", "--disable-tcl", "--disable-readline", **native)
    target.make(source, "sqlite3.c", "sqlite3.h", "TCLSH_CMD=tclsh", "BCC=build-cc", **native)
    target.run(source, "cc", "-O2", "-fPIC", *_SQLITE_OPTIONS.split(), "-c", "sqlite3.c", "-o", "sqlite3.o")
    target.run(source, "ar", "rcs", "libsqlite3.a", "sqlite3.o")
    _install(target, source, "libsqlite3.a", ["sqlite3.h"])


def _openssl(target: Target, source: Path) -> None:
    kind = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch64"}[target.architecture]
    # No engine or provider from files, and no settings of the machine, also not those of OPENSSL_CONF (FIPS): nothing
    # outside the executable is loaded.
    target.run(
        source,
        "perl",
        "./Configure",
        kind,
        "no-shared",
        "no-tests",
        "no-module",
        "no-engine",
        "no-dso",
        "no-async",
        "no-autoload-config",
        "no-comp",
        "no-legacy",
        "no-weak-ssl-ciphers",
        "--prefix=/opt/npudoctor",
        "--libdir=lib",
        "--openssldir=/opt/npudoctor/ssl",
        CFLAGS="-O2 -fPIC",
    )
    target.make(source, "build_generated")
    target.make(source, "libcrypto.a", "libssl.a")
    shutil.copytree(source / "include" / "openssl", target.root / "include" / "openssl", dirs_exist_ok=True)
    for library in ("libcrypto.a", "libssl.a"):
        _install(target, source, library, [])


LIBRARIES = {
    "zlib": _zlib,
    "bzip2": _bzip2,
    "xz-utils": _xz,
    "libffi": _libffi,
    "sqlite3": _sqlite,
    "openssl": _openssl,
}


def _install(target: Target, source: Path, library: str, headers: Sequence[str]) -> None:
    shutil.copy2(source / library, target.root / "lib" / library)
    for header in headers:
        shutil.copy2(source / header, target.root / "include" / header)


def build_python(target: Target, builder: str) -> Path:
    """Compile the interpreter; returns the folder of its sources, with `python` and its build data inside.

    `builder` is a Python of the same minor version on this machine, which freezes modules and writes the build data.
    """
    folder = target.work / "python3.11"
    mark = target.work / "python.done"
    if _is_finished(mark):
        return folder
    print(f"{target.architecture}: python", flush=True)
    target.copy_of("python3.11")
    root = target.root
    libraries: Mapping[str, str] = {
        "PKG_CONFIG": "/bin/false",
        "READELF": "/usr/bin/readelf",  # configure requires one with the prefix of the other architecture
        "MODULE_BUILDTYPE": "static",
        "CPPFLAGS": f"-I{root}/include",
        "LDFLAGS": f"-L{root}/lib -Wl,-s -pie",
        "ZLIB_CFLAGS": f"-I{root}/include",
        "ZLIB_LIBS": f"-L{root}/lib -lz",
        "BZIP2_CFLAGS": f"-I{root}/include",
        "BZIP2_LIBS": f"-L{root}/lib -lbz2",
        "LIBLZMA_CFLAGS": f"-I{root}/include",
        "LIBLZMA_LIBS": f"-L{root}/lib -llzma",
        "LIBSQLITE3_CFLAGS": f"-I{root}/include",
        "LIBSQLITE3_LIBS": f"-L{root}/lib -lsqlite3 -lm -lpthread",
        "ac_cv_file__dev_ptmx": "yes",
        "ac_cv_file__dev_ptc": "no",
        "ac_cv_buggy_getaddrinfo": "no",
        # What configure can only try by running it, and answers with the worst where it cross-compiles: without tzset,
        # and with the hash of texts that somebody can make collide (FNV in place of SipHash).
        "ac_cv_working_tzset": "yes",
        "ac_cv_aligned_required": "no",
        "ac_cv_broken_sem_getvalue": "no",
        "ac_cv_pthread_system_supported": "yes",
    }
    target.run(
        folder,
        "./configure",
        f"--host={target.triple}",
        "--build=x86_64-build-linux-gnu",
        "--prefix=/opt/npudoctor",
        f"--with-build-python={builder}",
        f"--with-openssl={root}",
        "--with-openssl-rpath=no",
        "--without-ensurepip",
        "--without-readline",
        "--disable-test-modules",
        "--with-computed-gotos",
        "--disable-shared",
        "--with-dbmliborder=",
        **libraries,
    )
    modules = (folder / "Modules" / "Setup.stdlib").read_text(encoding="utf-8").splitlines()
    kept = [line for line in modules if line.split(" ")[0].lstrip("#") not in WITHOUT_MODULES and line != "*shared*"]
    (folder / "Modules" / "Setup.local").write_text("\n".join([*kept, _CTYPES.format(root=root), ""]), encoding="utf-8")
    target.make(folder, "python")
    target.make(folder, "pybuilddir.txt")
    mark.write_text(_RECIPE, encoding="utf-8")
    return folder

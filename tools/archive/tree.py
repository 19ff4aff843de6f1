"""The folder that becomes an archive: interpreter, standard library, npudoctor and its packages, licences, SBOM."""

from __future__ import annotations

import ast
import email
import json
import os
import pprint
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tools.archive import cpython, sources, wheels

LAUNCHER = """#!/bin/sh
# Starts npudoctor with the Python beside this file, from whatever folder it lies in.
self=$0
[ ! -h "$self" ] || self=$(readlink -f -- "$self")
case $self in */*) ;; *) self=./$self ;; esac
python=${self%/*}/python3.11
if [ ! -x "$python" ]; then
    echo "npudoctor: cannot run $python: missing, or on a file system that is mounted noexec" >&2
    exit 2
fi
exec "$python" -I -m npudoctor "$@"
"""

README = """npudoctor {version} for Linux on {architecture}, with its own Python. Nothing needs to be installed.

    bin/npudoctor check

It runs from any folder, requires glibc {glibc} or newer, changes nothing outside its folder by being unpacked, and
downloads nothing. To install it for all users, as root: move this folder to /opt/npudoctor and link
/usr/local/bin/npudoctor to /opt/npudoctor/bin/npudoctor. To remove it, run `npudoctor self uninstall` and delete the
folder. Licences: licenses/ and lib/python3.11/site-packages/*.dist-info; sbom.cdx.json lists the components.
"""

_NOT_SHIPPED = (
    "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "curses", "dbm",
    "turtle.py", "distutils", "__pycache__", "idle_test",
)  # fmt: skip
_LIBRARY_LICENSES = {
    "python3.11": "Python-2.0", "openssl": "Apache-2.0", "zlib": "Zlib", "libffi": "MIT", "sqlite3": "blessing",
    "xz-utils": "public domain", "bzip2": "bzip2-1.0.6",
}  # fmt: skip
"""By SPDX, where it has an id; of xz only liblzma is linked."""


def build(
    target: cpython.Target, python: Path, interpreter: Path, own_wheel: Path, *, version: str, epoch: int
) -> Path:
    """Write the whole folder anew; `interpreter` is the folder of the compiled sources of CPython."""
    root = target.work / "stage" / f"npudoctor-{version}-linux-{target.architecture}"
    shutil.rmtree(root.parent, ignore_errors=True)
    library = root / "lib" / "python3.11"
    (root / "bin").mkdir(parents=True)
    shutil.copy2(interpreter / "python", root / "bin" / "python3.11")
    _write(root / "bin" / "npudoctor", LAUNCHER, executable=True)
    skipped = shutil.ignore_patterns(*_NOT_SHIPPED)
    shutil.copytree(interpreter / "Lib", library, ignore=skipped)
    (library / "lib-dynload").mkdir()
    _write(library / "lib-dynload" / "README", "All modules of the standard library are in the executable.\n")
    _write_build_data(target, interpreter, library)
    packages = library / "site-packages"
    shutil.rmtree(packages, ignore_errors=True)
    _install(python, target, own_wheel, packages)
    _write(root / "README", README.format(version=version, architecture=target.architecture, glibc=cpython.GLIBC))
    _copy_licenses(target, root)
    _write(root / "sbom.cdx.json", json.dumps(bill(packages, version, target.architecture, epoch), indent=1) + "\n")
    _compile(python, root, epoch)
    return root


def _write(path: Path, text: str, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755 if executable else 0o644)


def _write_build_data(target: cpython.Target, interpreter: Path, library: Path) -> None:
    """sysconfig's data, without the folders of the machine that built it."""
    built = interpreter / (interpreter / "pybuilddir.txt").read_text(encoding="utf-8").strip()
    for path in built.glob("_sysconfigdata*.py"):
        _write(library / path.name, build_data(path.read_text(encoding="utf-8"), target.work.parent))


def build_data(text: str, work: Path) -> str:
    """The text of sysconfig's data from below `work`, as any other folder gives it: long paths break its lines."""
    head, equals, values = text.partition("build_time_vars = ")
    told: dict[str, Any] = ast.literal_eval(values)
    said = {
        name: value.replace(str(work), "/build") if isinstance(value, str) else value for name, value in told.items()
    }
    return f"{head}{equals}{pprint.pformat(said)}\n"


def _install(python: Path, target: cpython.Target, own_wheel: Path, packages: Path) -> None:
    found = wheels.download(python, target.work.parent, target.architecture)
    files = [str(path) for path in sorted(found.glob("*.whl"))]
    argv = [str(python), "-m", "pip", "install", "-q", "--no-index", "--no-compile", "--target", str(packages)]
    subprocess.run([*argv, *wheels.platform_options(target.architecture), *files, str(own_wheel)], check=True)
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for folder in packages.glob("*.dist-info"):
        for name in ("direct_url.json", "REQUESTED", "INSTALLER"):
            (folder / name).unlink(missing_ok=True)
        record = folder / "RECORD"
        gone = re.compile(r"^(?:\.\./)*bin/|^[^/]*\.dist-info/(?:direct_url\.json|REQUESTED|INSTALLER),")
        rows = [row for row in record.read_text(encoding="utf-8").splitlines() if not gone.match(row)]
        _write(record, "\n".join(sorted(rows)) + "\n")


def _copy_licenses(target: cpython.Target, root: Path) -> None:
    for name in sources.NAMES:
        shutil.copy2(
            target.work.parent / "sources" / name / "debian" / "copyright", _folder(root / "licenses") / f"{name}.txt"
        )
    shutil.copy2(
        target.work.parent / "sources" / "python3.11" / "LICENSE", root / "licenses" / "python3.11-LICENSE.txt"
    )
    shutil.copy2(wheels.ROOT / "LICENSE", root / "LICENSE")


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _compile(python: Path, root: Path, epoch: int) -> None:
    """Byte code that is never compared with its source: an archive on a read-only mount starts as fast."""
    argv = [str(python), "-I", "-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash"]
    variables = {
        "PATH": os.environ["PATH"],
        "SOURCE_DATE_EPOCH": str(epoch),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
    }
    argv = [word for word in argv if word != "-I"]  # the seed of hashes is of the environment
    subprocess.run([*argv, "-s", str(root), "-p", "/opt/npudoctor", str(root / "lib")], check=True, env=variables)


def bill(packages: Path, version: str, architecture: str, epoch: int) -> dict[str, Any]:
    """The components of an archive, as CycloneDX 1.5 has them."""
    components = [*_libraries(), *_distributions(packages)]
    stamp = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"npudoctor {version} {architecture} {json.dumps(components)}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": stamp,
            "component": {
                "type": "application",
                "name": "npudoctor",
                "version": version,
                "bom-ref": "npudoctor",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
            "properties": [{"name": "npudoctor:architecture", "value": architecture}],
        },
        "components": components,
        "dependencies": [{"ref": "npudoctor", "dependsOn": [one["bom-ref"] for one in components]}],
    }


def _libraries() -> Iterator[dict[str, Any]]:
    for name, pin in sources.pins().items():
        purl = f"pkg:deb/debian/{name}@{pin['version']}?arch=source"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": pin["version"],
            "licenses": [{"license": {"name" if " " in _LIBRARY_LICENSES[name] else "id": _LIBRARY_LICENSES[name]}}],
            "purl": purl,
            "hashes": [{"alg": "SHA-256", "content": next(iter(pin["files"].values()))}],
        }


def _distributions(packages: Path) -> Iterator[dict[str, Any]]:
    for folder in sorted(packages.glob("*.dist-info")):
        data = email.message_from_string((folder / "METADATA").read_text(encoding="utf-8"))
        name = re.sub(r"[-_.]+", "-", str(data["Name"])).lower()
        if name == "npudoctor":
            continue
        purl = f"pkg:pypi/{name}@{data['Version']}"
        row: dict[str, Any] = {
            "type": "library", "bom-ref": purl, "name": name, "version": str(data["Version"]), "purl": purl
        }  # fmt: skip
        if text := license_of(data):
            row["licenses"] = [text]
        yield row


def license_of(data: Any) -> dict[str, Any] | None:
    """The licence that a distribution's metadata names: an SPDX expression, else what its author wrote."""
    if expression := data["License-Expression"]:
        return {"expression": str(expression)}
    classified = [row.rpartition(" :: ")[2] for row in data.get_all("Classifier", []) if row.startswith("License ::")]
    words = str(data["License"] or "").strip().partition("\n")[0] or " AND ".join(classified)
    return {"license": {"name": words}} if words else None

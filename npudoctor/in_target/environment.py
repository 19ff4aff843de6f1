"""Prints what is installed for the Python that runs this, as one JSON object; imports nothing of what it names.

Standard library only, in the syntax of Python 3.6: it runs inside the examined interpreter, whatever that is. Metadata
is read file by file, because importlib.metadata is missing before 3.8 and slow where hundreds of packages lie.
"""

import json
import os
import re
import sys

_HEADER_LIMIT_BYTES = 1 << 20
_PAIR = ("torch", "torch-npu")
_KINDS = (".dist-info", ".egg-info")
_NAMES = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _lines(path: str) -> "list[str]":
    try:
        with open(path, "rb") as file:
            return file.read(_HEADER_LIMIT_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return []


def _headers(path: str) -> "list[tuple[str, str]]":
    """The headers of a METADATA or PKG-INFO; its text, after the first empty line, is not read."""
    found = []  # type: list[tuple[str, str]]
    for line in _lines(path):
        if not line.strip():
            break
        if line[0] in " \t" and found:
            found[-1] = (found[-1][0], found[-1][1] + " " + line.strip())
            continue
        name, colon, value = line.partition(":")
        if colon:
            found.append((name.strip().lower(), value.strip()))
    return found


def _egg_requirements(path: str) -> "list[str]":
    """The lines of a requires.txt that belong to no extra; `[:marker]` sections become markers."""
    found = []
    marker = ""  # type: str | None
    for line in (raw.strip() for raw in _lines(path)):
        if line.startswith("[") and line.endswith("]"):
            extra, _, condition = line[1:-1].partition(":")
            marker = None if extra else condition
        elif line and not line.startswith("#") and marker is not None:
            found.append(line + (" ; " + marker if marker else ""))
    return found


def _distribution(folder: str, entry: str) -> "tuple[str, dict[str, object], float] | None":
    """Name, description and time of installation of one metadata folder; None where it is only the rest of one."""
    path = os.path.join(folder, entry)
    base = entry.rsplit(".", 1)[0]
    metadata = path
    requires = []  # type: list[str]
    if os.path.isdir(path):
        wheel = entry.endswith(".dist-info")
        metadata = os.path.join(path, "METADATA" if wheel else "PKG-INFO")
        if not os.path.isfile(metadata) and not os.path.isfile(os.path.join(path, "RECORD")):
            return None
        if not wheel:
            requires = _egg_requirements(os.path.join(path, "requires.txt"))
    elif not os.path.isfile(path):
        return None
    headers = _headers(metadata)
    named = dict(reversed(headers))
    by_folder = re.match(r"([A-Za-z0-9][A-Za-z0-9._]*)-([^-]+)", base)
    name = named.get("name") or (by_folder.group(1) if by_folder else base)
    version = named.get("version") or (by_folder.group(2) if by_folder else "")
    if not re.match(r"[A-Za-z0-9]", name) or not version:
        return None
    requires = requires or [value for key, value in headers if key == "requires-dist"]
    try:
        installed = os.stat(metadata).st_mtime
    except OSError:
        installed = 0.0
    return _normalise(name), {"version": version, "requires": requires}, installed


def _distributions() -> "tuple[dict[str, dict[str, object]], dict[str, list[dict[str, object]]]]":
    """Every distribution that an import could find: the first on sys.path wins, in one folder the last installed.

    The second are all copies of torch and torch_npu, in the order of sys.path.
    """
    found = {}  # type: dict[str, dict[str, object]]
    copies = {}  # type: dict[str, list[dict[str, object]]]
    for folder in sys.path:
        try:
            entries = sorted(os.listdir(folder or "."))
        except OSError:
            continue
        here = {}  # type: dict[str, tuple[float, dict[str, object]]]
        for entry in entries:
            if not entry.endswith(_KINDS):
                continue
            try:
                one = _distribution(folder or ".", entry)
            except Exception:
                one = None
            if one and (one[0] not in here or one[2] >= here[one[0]][0]):
                here[one[0]] = (one[2], one[1])
        is_egg = os.path.isfile(os.path.join(folder, "EGG-INFO", "PKG-INFO"))
        egg = _distribution(folder, "EGG-INFO") if is_egg else None
        if egg:
            here.setdefault(egg[0], (egg[2], egg[1]))
        for name, (_, described) in here.items():
            found.setdefault(name, described)
            place = os.path.realpath(folder or ".")
            if name in _PAIR and place not in [copy["folder"] for copy in copies.get(name, [])]:
                copies.setdefault(name, []).append({"version": described["version"], "folder": place})
    return found, copies


def _first_on_path(package: str) -> "str | None":
    """The folder that `import package` would take in a script started here."""
    for folder in [os.getcwd(), *sys.path]:
        path = os.path.join(folder, package)
        if os.path.isfile(os.path.join(path, "__init__.py")):
            return path
    return None


def _shadows() -> "dict[str, str]":
    """Packages that a source tree hides: its folder is found first and holds no compiled part."""
    hidden = {}
    for package in ("torch", "torch_npu"):
        path = _first_on_path(package)
        if path and not any(name.startswith("_C") and name.endswith(".so") for name in os.listdir(path)):
            hidden[package] = os.path.realpath(path)
    return hidden


def _torch_build() -> "dict[str, str | None] | None":
    """What torch's own version file says, which knows of CUDA where the metadata is silent."""
    path = _first_on_path("torch")
    said = "\n".join(_lines(os.path.join(path, "version.py"))) if path else ""
    version = re.search(r"^__version__\s*(?::[^=]+)?=\s*['\"]([^'\"]+)", said, re.M)
    cuda = re.search(r"^cuda\s*(?::[^=]+)?=\s*['\"]([^'\"]+)", said, re.M)
    if not version:
        return None
    return {"version": version.group(1), "cuda": cuda.group(1) if cuda else None}


def _glibc() -> "str | None":
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, ValueError, OSError):
        return None
    return version if name == "glibc" and version else None


def _attempt(part: "object") -> "object":
    try:
        return part()  # type: ignore[operator]
    except Exception:
        return None


def _main() -> None:
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != own]
    implementation = sys.implementation.name
    distributions, copies = _distributions()
    print(
        json.dumps(
            {
                "executable": sys.executable,
                "version": sys.version.split()[0],
                "implementation": _NAMES.get(implementation, implementation),
                "prefix": sys.prefix,
                "base_prefix": sys.base_prefix,
                "machine": os.uname()[4],
                "glibc": _glibc(),
                "distributions": distributions,
                "copies": {name: places for name, places in copies.items() if len(places) > 1},
                "shadows": _attempt(_shadows) or {},
                "torch_build": _attempt(_torch_build),
            },
            sort_keys=True,
        )
    )


_main()

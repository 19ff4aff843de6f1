"""Planning with the environment's own installer: what it would change, and what forbids it."""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
from collections.abc import Iterator, Sequence

from npudoctor.facts.python.target_python import PythonEnvironment, package_folders
from npudoctor.sdk import Host, KeepPackages, Note, Refused, Step, Unavailable, mapping_process, untrusted_writer

from . import messages

RESOLVE_TIMEOUT_S = 900.0
_REQUIREMENT = r"[A-Za-z0-9][\w.-]*(\s*(==|<=|>=|<|>|~=|!=)\s*[\w.+!*-]+)?(,(==|<=|>=|<|>|~=|!=)[\w.+!*-]+)*"
_FOR_HELP = "ResolutionImpossible: for help visit"
"""pip's pointer to its documentation, in some releases (26.3) the last line, below the conflict itself."""

_CHANGE = r"(?m)^ ([+-]) ([\w.-]+)==(\S+)"


class NotFoundError(Exception):
    """The installer finds no set of packages; the text is its last line."""


def steps(host: Host, python: PythonEnvironment, wanted: Sequence[str], offline: str) -> Iterator[Step | Note]:
    """Install requirements: resolved first, then exactly what was resolved."""
    for one in wanted:
        if not re.fullmatch(_REQUIREMENT, one):
            raise Refused(messages.NOT_A_REQUIREMENT.text(text=one))
    _may_change(host, python)
    options = source(host, offline)
    uv = _uv(host, python)
    found = _by_uv(host, uv, python, wanted, options) if uv else _by_pip(host, python, wanted, options)
    changes = tuple((name, old, new) for name, old, new in found if old != new)
    if not changes:
        return
    pins = [f"{name}=={new}" for name, _, new in changes]
    front = [uv, "pip", "install", "--python", python.executable] if uv else _pip(python, "install")
    installer = (*front, "--no-deps", *options, *pins)
    _room(host, python, [name for name, old, _ in changes if old])
    yield Note(messages.RESOLVED_FIRST.text())
    yield KeepPackages(python=python.executable, installer=installer, changes=changes, archive="")


def removal(host: Host, python: PythonEnvironment, names: Sequence[str]) -> Iterator[Step]:
    """Remove distributions, their files kept."""
    _may_change(host, python)
    changes = tuple((name, python.distributions[name].version, "") for name in names)
    uv = _uv(host, python)
    front = [uv, "pip", "uninstall", "--python", python.executable] if uv else [*_pip(python, "uninstall"), "-y"]
    yield KeepPackages(python=python.executable, installer=(*front, *names), changes=changes, archive="")


def anew(host: Host, python: PythonEnvironment, name: str, offline: str) -> Step:
    """Install the version of a distribution that is there once more, after its removal."""
    version = python.distributions[name].version
    uv = _uv(host, python)
    front = [uv, "pip", "install", "--python", python.executable] if uv else _pip(python, "install")
    again = "--reinstall" if uv else "--force-reinstall"
    installer = (*front, "--no-deps", again, *source(host, offline), f"{name}=={version}")
    return KeepPackages(
        python=python.executable, installer=installer, changes=((name, "", version),), archive="", again=True
    )


def _pip(python: PythonEnvironment, what: str, pip: Sequence[str] = ("-m", "pip")) -> list[str]:
    return [python.executable, *pip, what, "--no-input", "--disable-pip-version-check"]


def source(host: Host, offline: str) -> list[str]:
    """pip's options for a folder of wheels; none without one. Raises Refused where root would trust others."""
    if not offline:
        return []
    if not offline.startswith("/") or not host.exists(offline) or host.stat(offline).kind != "dir":
        raise Refused(messages.NOT_A_FOLDER.text(path=offline))
    for path in (offline, *(f"{offline}/{name}" for name in host.list_dir(offline))):
        if host.user.uid == 0 and (problem := untrusted_writer(host, path)):
            raise Refused(messages.WHEELS_NOT_TRUSTED.text(problem=problem))
    return ["--no-index", "--find-links", offline]


def _uv(host: Host, python: PythonEnvironment) -> str | None:
    """The path of uv, where it made the environment and the environment has no pip of its own."""
    with contextlib.suppress(Unavailable):
        if "pip" not in python.distributions and re.search(r"^uv = ", host.read(f"{python.prefix}/pyvenv.cfg"), re.M):
            return host.which("uv")
    return None


def resolve_versions(
    host: Host, python: PythonEnvironment, wanted: Sequence[str], source: Sequence[str], pip: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """What a new environment of a Python would get, by name and version; `pip` are the words that start pip in it."""
    for one in wanted:
        if not re.fullmatch(_REQUIREMENT, one):
            raise Refused(messages.NOT_A_REQUIREMENT.text(text=one))
    found = _by_pip(host, python, wanted, (*source, "--ignore-installed"), pip)
    return tuple((name, version) for name, _, version in found)


def _by_pip(
    host: Host,
    python: PythonEnvironment,
    wanted: Sequence[str],
    source: Sequence[str],
    pip: Sequence[str] = ("-m", "pip"),
) -> list[tuple[str, str, str]]:
    argv = [*_pip(python, "install", pip), "--dry-run", "--quiet", "--report", "-", *source, *wanted]
    done = host.run(argv, timeout=RESOLVE_TIMEOUT_S)
    if done.timed_out or done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if _FOR_HELP not in line]
        said = [line for line in lines if line.startswith("ERROR")] or lines
        raise NotFoundError((said or [messages.NO_ANSWER.text(tool="pip")])[-1].removeprefix("ERROR: ")[:300])
    try:
        listed = json.loads(done.stdout[done.stdout.index("{") :])["install"]
        found = [(_normalise(one["metadata"]["name"]), str(one["metadata"]["version"])) for one in listed]
    except (ValueError, KeyError, TypeError) as problem:
        raise Refused(messages.OLD_PIP.text()) from problem
    return [(name, _installed_version(python, name), version) for name, version in sorted(found)]


def _by_uv(
    host: Host, uv: str, python: PythonEnvironment, wanted: Sequence[str], source: Sequence[str]
) -> list[tuple[str, str, str]]:
    argv = [uv, "pip", "install", "--python", python.executable, "--dry-run", *source, *wanted]
    done = host.run(argv, timeout=RESOLVE_TIMEOUT_S)
    if done.timed_out or done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [messages.NO_ANSWER.text(tool="uv")]
        raise NotFoundError(lines[-1][:300])
    new = {_normalise(name): version for sign, name, version in re.findall(_CHANGE, done.stderr) if sign == "+"}
    return [(name, _installed_version(python, name), version) for name, version in sorted(new.items())]


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed_version(python: PythonEnvironment, name: str) -> str:
    found = python.distributions.get(name)
    return found.version if found is not None else ""


def _may_change(host: Host, python: PythonEnvironment) -> None:
    """Raise Refused for an environment that belongs to another user, or is in use."""
    must_be_own(host, python)
    prefix = python.prefix or posixpath.dirname(posixpath.dirname(python.executable))
    folders = [folder for folder in package_folders(host, python.executable) if _is_there(host, folder)]
    minor = ".".join(python.version.split(".")[:2])
    marked = f"{python.base_prefix or prefix}/lib/python{minor}/EXTERNALLY-MANAGED"
    if prefix == (python.base_prefix or prefix) and _is_there(host, marked):
        raise Refused(messages.OF_THE_SYSTEM.text(path=prefix))
    for folder in folders:
        owner = host.stat(folder)
        if "w" not in owner.access:
            raise Refused(messages.NOT_WRITABLE.text(path=folder, user=host.user.name))
        if owner.uid != host.user.uid:
            raise Refused(messages.OF_ANOTHER_USER.text(path=folder, uid=owner.uid))
        _made_otherwise(host, folder)
    if pid := mapping_process(host, rf"{re.escape(prefix)}/lib\S*\.so"):
        raise Refused(messages.IN_USE.text(pid=pid, path=prefix))


def must_be_own(host: Host, python: PythonEnvironment) -> None:
    """Raise Refused where installing would run what another user can change: pip, its configuration, or a module."""
    try:
        user = host.target_user(python.executable)
    except Unavailable as why:
        raise Refused(why.reason) from why
    if user.uid != host.user.uid:
        where = python.prefix or python.executable
        raise Refused(messages.RUN_AS.text(path=where, user=user.name))


def _is_there(host: Host, path: str) -> bool:
    with contextlib.suppress(Unavailable):
        return host.exists(path)
    return False


def _made_otherwise(host: Host, folder: str) -> None:
    """A torch that conda or a source tree has put there is not pip's to replace."""
    for name in host.list_dir(folder):
        if not re.match(r"torch(_npu)?-[^/]*\.dist-info$", name):
            continue
        with contextlib.suppress(Unavailable):
            if host.read(f"{folder}/{name}/INSTALLER").strip() == "conda":
                raise Refused(messages.BY_CONDA.text(name=name))
        with contextlib.suppress(Unavailable):
            if '"editable": true' in host.read(f"{folder}/{name}/direct_url.json"):
                raise Refused(messages.EDITABLE.text(name=name))


def _room(host: Host, python: PythonEnvironment, replaced: Sequence[str]) -> None:
    """There must be room for the kept files: twice what the replaced packages take, as far as their RECORDs say it."""
    need = 0
    for folder in package_folders(host, python.executable):
        if not _is_there(host, folder):
            continue
        for name in host.list_dir(folder):
            if name.endswith(".dist-info") and _normalise(name[: -len(".dist-info")].split("-")[0]) in replaced:
                with contextlib.suppress(Unavailable):
                    rows = host.read(f"{folder}/{name}/RECORD").splitlines()
                    sizes = (re.search(r",([0-9]{1,15})$", row) for row in rows)
                    need += sum(int(size[1]) for size in sizes if size)
    with contextlib.suppress(Unavailable):
        free = min(int(row["free"]) for row in host.measure("disks") if row["mount"] == "/")
        if need and free < 2 * need:
            raise Refused(messages.DISK_FULL.text(need=need >> 20, free=free >> 20))

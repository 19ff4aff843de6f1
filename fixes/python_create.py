"""A new Python environment with the torch and torch_npu that match this CANN."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.facts.python.target_python import TARGET_TIMEOUT_S, PythonEnvironment, parse_environment
from npudoctor.records import record, replace
from npudoctor.sdk import (
    ENVIRONMENT_MARKER,
    CreateEnvironment,
    Host,
    MakeFolder,
    Note,
    Parameters,
    ParseError,
    Refused,
    Step,
    Unavailable,
    WriteFile,
    fix,
)

from . import _installing, _pairs, messages
from .python import PROOF

SERIES = ("python3.12", "python3.11", "python3.10", "python3.9", "python3.8")
_PATH = r"(?a)(/[A-Za-z0-9_][\w@+=:,. -]*)+"
_WHEEL = r"(?i)(torch|torch_npu)-([^-]+)-.*\.whl"
_PIP = r"pip-(\d+(?:\.\d+)*)-py3-none-any\.whl"


@record(frozen=True)
class Environment(Parameters):
    """`path` is the new folder: /opt/npu-env for root, ~/npu-env for others. `python` is the interpreter (a path or a
    command) that it is made with; empty for the inspected one, or another that this CANN's torch_npu supports. `torch`
    and `torch_npu` are releases; empty for the pair of the tables, of which the folder has the wheels. `packages` are
    requirements besides; empty for what CANN's compiler imports. `offline` is a folder of wheels to install from, with
    no index, as is each folder of --packages that has torch_npu. `conda` makes a conda environment."""

    path: str = ""
    python: str = ""
    torch: str = ""
    torch_npu: str = ""
    packages: tuple[str, ...] = ()
    offline: str = ""
    conda: bool = False


@fix("python.create", resolves=(*PROOF, "python.packages"))
def create_environment(
    asked: Environment, host: Host, python: PythonEnvironment, cann: Cann | None, staged: StagedPackages | None
) -> Iterator[Step | Note]:
    """Create a Python environment with a matching torch_npu.

    With the torch that it requires, for this CANN: a venv, or a conda environment, in a folder that does not exist yet.
    All packages are resolved first, from a folder of wheels or from the index that this site has configured, and
    listed; exactly these are installed. An environment that is there is never changed. Undo removes the new one, unless
    something was added to it or it is in use.
    """
    path = asked.path or _usual(host)
    if not re.fullmatch(_PATH, path):
        raise Refused(messages.NOT_A_PATH.text(path=path))
    there = host.exists(path) or host.read_link(path) is not None
    if there and not host.exists(f"{path}/{ENVIRONMENT_MARKER}"):
        raise Refused(messages.ENVIRONMENT_EXISTS.text(path=path), instead="--set path=/another/folder")
    folders = [asked.offline] if asked.offline else _wheel_folders(staged)
    source = [word for folder in folders for word in _installing.source(host, folder)]
    wheels = [name for folder in folders for name in host.list_dir(folder)]
    base, torch, torch_npu = _choose(asked, host, python, cann, wheels)
    local = "+cpu" if base.machine == "x86_64" and "+" not in torch else ""
    wanted = [f"torch=={torch}{local}", f"torch-npu=={torch_npu}"]
    wanted += asked.packages or _pairs.missing_packages(replace(base, distributions={}), cann)
    own_pip = _newest_pip(host, folders)
    pip = [own_pip] if own_pip else ["-m", "pip"]
    try:
        found = _installing.resolve_versions(host, base, [*wanted, *(["pip"] if own_pip else [])], source, pip)
    except _installing.NotFoundError as why:
        raise Refused(messages.NOT_RESOLVED_HERE.text(problem=why)) from why
    marker = WriteFile(f"{path}/{ENVIRONMENT_MARKER}", messages.MADE_BY_FIX.text(), 0o644)
    front = (f"{path}/bin/python", *pip, "install", "--no-input", "--disable-pip-version-check", "--no-deps")
    step = CreateEnvironment(
        path=path,
        create=_creation(host, base, path, conda=asked.conda, offline=bool(source), bare=bool(own_pip)),
        installer=(*front, *source, *(f"{name}=={version}" for name, version in found)),
        packages=found,
    )
    if host.exists(path):
        if step.holds(host):
            return
        raise Refused(messages.ENVIRONMENT_EXISTS.text(path=path), instead="--set path=/another/folder")
    yield Note(messages.RESOLVED_FIRST.text())
    shown = messages.ACTIVATE_IT.text(path=shlex.quote(path))
    yield Note(shown, "" if path == _usual(host) else messages.VISIBLE_AT_ACTIVATION.text())
    folder = posixpath.dirname(path)
    missing = [path]
    while not host.exists(folder):
        missing.insert(0, folder)
        folder = posixpath.dirname(folder)
    for one in missing:
        yield MakeFolder(one)
    yield marker
    yield step


def _usual(host: Host) -> str:
    return "/opt/npu-env" if host.user.uid == 0 else f"{host.environ.get('HOME', '').rstrip('/')}/npu-env"


def _wheel_folders(staged: StagedPackages | None) -> list[str]:
    """The folders of --packages that have torch_npu or torch."""
    found = staged.usable if staged is not None else ()
    return list(dict.fromkeys(posixpath.dirname(one.path) for one in found if one.component in ("torch", "torch_npu")))


def _newest_pip(host: Host, folders: Sequence[str]) -> str | None:
    """The newest pip among the wheels: systems often have none, or one that cannot say what it would install."""
    found = [
        (tuple(map(int, match[1].split("."))), f"{folder}/{name}/pip")
        for folder in folders
        for name in host.list_dir(folder)
        if (match := re.fullmatch(_PIP, name))
    ]
    return max(found)[1] if found else None


def _choose(
    asked: Environment, host: Host, python: PythonEnvironment, cann: Cann | None, wheels: Sequence[str]
) -> tuple[PythonEnvironment, str, str]:
    """The Python to begin with, torch and torch_npu; raises Refused where no table has a pair for any Python."""
    stated = cann.chosen.stated if cann is not None and cann.chosen is not None else None
    there = {
        (match[1].lower(), re.split(r"\+|%2B", match[2])[0]) for name in wheels if (match := re.match(_WHEEL, name))
    }
    for base in _bases(asked, host, python):
        if asked.torch and asked.torch_npu:
            return base, *_pairs.choose_pair(asked.torch, asked.torch_npu, base, cann)
        rows = knowledge.compatibility().releases_for_cann(stated, python=base.version) if stated else ()
        rows = tuple(
            row
            for row in rows
            if asked.torch in ("", row.torch)
            and (asked.torch_npu == row.version or (not asked.torch_npu and not row.is_prerelease))
            and (not wheels or {("torch", row.torch), ("torch_npu", row.version)} <= there)
        )
        if rows:
            return base, rows[0].torch, rows[0].version
    if stated is None:
        raise Refused(messages.NO_PAIR_KNOWN.text(), instead="--set torch=2.5.1 torch_npu=2.5.1")
    raise Refused(messages.NO_PYTHON_FOR.text(cann=stated), instead="--set python=PATH torch=2.5.1 torch_npu=2.5.1")


def _bases(asked: Environment, host: Host, python: PythonEnvironment) -> Iterator[PythonEnvironment]:
    """The Python that a person named; else the inspected one and those of other versions on PATH."""
    if not asked.python:
        _installing.must_be_own(host, python)
        yield python
    for name in [asked.python] if asked.python else SERIES:
        path = host.which(name)
        if path is None and asked.python:
            raise Refused(messages.NOT_A_COMMAND.text(command=name))
        if path is None or (not asked.python and path == python.executable):
            continue
        try:
            base = parse_environment(host.run_in_target("environment", path, timeout=TARGET_TIMEOUT_S).stdout)
        except (Unavailable, ParseError):
            if asked.python:
                raise Refused(messages.NOT_A_PYTHON.text(path=path)) from None
            continue
        _installing.must_be_own(host, base)
        yield base


def _creation(
    host: Host, base: PythonEnvironment, path: str, *, conda: bool, offline: bool, bare: bool
) -> tuple[str, ...]:
    """The command that makes the environment."""
    if conda:
        if (program := host.which("conda")) is None:
            raise Refused(messages.NOT_A_COMMAND.text(command="conda"))
        series = "{}.{}".format(*base.release)
        options = ("--offline",) if offline else ()
        return (program, "create", "--yes", "--quiet", *options, "--prefix", path, f"python={series}", "pip")
    return (base.executable, "-m", "venv", *(("--without-pip",) if bare else ()), path)

"""The Python that trains on this node: which interpreter it is, and what is installed for it."""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.numbers import shorten_numbers
from npudoctor.records import field, record, replace
from npudoctor.sdk import ENVIRONMENT_MARKER, Because, Host, Options, ParseError, Unavailable, probe, real_path

TARGET_TIMEOUT_S = 20.0
OLDEST = (3, 7)
"""The oldest Python for which torch_npu has ever had wheels."""

_CONDA_ROOTS = ("miniforge3", "miniconda3", "anaconda3", "mambaforge", "miniforge", "miniconda", "anaconda", "conda")
_TORCH_NPU = r"(?i)torch_npu(-[^/]*)?\.(dist-info|egg-info|egg|egg-link)"


@record(frozen=True, kw_only=True)
class TargetPython:
    """The interpreter that is examined. `why` is a clause for the reader; `asked_for` whether a person named it."""

    path: str
    why: str
    asked_for: bool = False


@record(frozen=True)
class Distribution:
    """An installed package: its version and its Requires-Dist lines, as its metadata has them."""

    version: str
    requires: tuple[str, ...] = ()

    @property
    def base_version(self) -> str:
        """The version without a local part: 2.5.1 for 2.5.1+cpu."""
        return self.version.partition("+")[0]


@record(frozen=True, kw_only=True)
class PythonEnvironment:
    """What the target Python says of itself. Names of distributions are normalised (`torch-npu`).

    `copies` are the version and the folder of each torch and torch_npu that is installed more than once, the one that
    Python finds first in front. `shadows` maps a package to the source tree that hides it; `torch_build` is what
    torch's version file says (`version`, `cuda`), None where it is not known. `run_as` names the user that it ran as,
    where that is another one than npudoctor's own.
    """

    executable: str
    version: str
    implementation: str | None = None
    prefix: str | None = None
    base_prefix: str | None = None
    machine: str | None = None
    glibc: str | None = None
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    copies: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    shadows: Mapping[str, str] = field(default_factory=dict)
    torch_build: Mapping[str, str | None] | None = None
    run_as: str | None = None

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version: (3, 11)."""
        numbers = re.findall(r"\d+", self.version)
        return int(numbers[0]), int(numbers[1])

    @property
    def command(self) -> str:
        """The interpreter, quoted for a shell."""
        return quote(self.executable)

    @property
    def pip(self) -> str:
        """The command that runs its pip."""
        return f"{self.command} -m pip"

    @property
    def torch(self) -> Distribution | None:
        """The installed torch."""
        return self.distributions.get("torch")

    @property
    def torch_npu(self) -> Distribution | None:
        """The installed torch_npu."""
        return self.distributions.get("torch-npu")


def parse_environment(text: str) -> PythonEnvironment:
    """Read what in_target/environment.py prints; lines before the object, which start-up files print, are passed
    over."""
    text = shorten_numbers(text)
    lines = [line for line in text.splitlines() if line.lstrip().startswith("{")]
    try:
        said = json.loads(lines[-1] if lines else text)
    except (ValueError, RecursionError) as problem:
        raise ParseError(f"no JSON object in the output: {problem}", line_number=1, line=text[:200]) from None
    if not isinstance(said, dict) or not re.match(r"\d+\.\d+", str(said.get("version", ""))):
        raise ParseError("no Python version in the output", line_number=1, line=text[:200])
    distributions = said.get("distributions")
    return PythonEnvironment(
        executable=str(said.get("executable") or "python3"),
        version=str(said["version"]),
        implementation=_text(said.get("implementation")),
        prefix=_text(said.get("prefix")),
        base_prefix=_text(said.get("base_prefix")),
        machine=_text(said.get("machine")),
        glibc=_text(said.get("glibc")),
        distributions=dict(_distributions(distributions if isinstance(distributions, dict) else {})),
        copies={str(name): _copies(places) for name, places in _mapping(said.get("copies")).items()},
        shadows={str(key): str(value) for key, value in _mapping(said.get("shadows")).items()},
        torch_build={key: _text(value) for key, value in _mapping(said.get("torch_build")).items()} or None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _copies(said: object) -> tuple[tuple[str, str], ...]:
    rows = [_mapping(one) for one in said] if isinstance(said, list) else []
    return tuple((str(row["version"]), str(row["folder"])) for row in rows if {"version", "folder"} <= row.keys())


def _distributions(said: Mapping[str, Any]) -> Iterator[tuple[str, Distribution]]:
    for name, about in said.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", name):
            continue  # a folder that somebody wrote: commands to paste hold these names
        if isinstance(about, dict) and isinstance(about.get("version"), str):
            requires = about.get("requires")
            lines = tuple(map(str, requires)) if isinstance(requires, list) else ()
            yield re.sub(r"[-_.]+", "-", name).lower(), Distribution(about["version"], lines)


@probe
def target_python(host: Host, options: Options, environment: JobEnvironment | None) -> TargetPython:
    """The one that a person named, else the first that holds torch_npu, else the first that is not npudoctor's own."""
    if options.python:
        return TargetPython(path=_path_of(host, options.python), why="--python names it", asked_for=True)
    variables: Mapping[str, str] = environment or {}
    if named := variables.get("NPUDOCTOR_PYTHON"):
        return TargetPython(path=_path_of(host, named), why="NPUDOCTOR_PYTHON names it", asked_for=True)
    candidates = list(_candidates(host, variables))
    for path, where in candidates:
        if _holds_torch_npu(host, path):
            return TargetPython(path=path, why=f"{where} and contains torch_npu")
    for path, where in candidates:
        if not _is_own(host, path):
            return TargetPython(path=path, why=where)
    if host.about.own_prefix is None:
        return TargetPython(path="python3", why="the recording does not state its path")
    raise Unavailable("no Python other than that of npudoctor found; name one with --python")


def _path_of(host: Host, name: str) -> str:
    """A path, the folder of an environment, or a command, as a path."""
    if "/" not in name:
        with contextlib.suppress(Unavailable):
            return host.which(name) or name
        return name
    with contextlib.suppress(Unavailable):
        if host.stat(name).kind == "dir":
            return _in_environment(host, name.rstrip("/")) or posixpath.join(name, "bin/python3")
    return name


def _in_environment(host: Host, prefix: str) -> str | None:
    for name in ("python", "python3"):
        path = posixpath.join(prefix, "bin", name)
        if _exists(host, path):
            return path
    return None


def _exists(host: Host, path: str) -> bool:
    with contextlib.suppress(Unavailable):
        return host.exists(path)
    return False


def _candidates(host: Host, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Interpreters in the order of preference, each once, with the clause that says why it counts."""
    seen: set[str] = set()
    folders = [folder for folder in variables.get("PATH", "").split(":") if folder.startswith("/")]
    active = [
        (prefix, f"it belongs to the active {kind} environment")
        for kind, name in (("virtual", "VIRTUAL_ENV"), ("conda", "CONDA_PREFIX"))
        if (prefix := variables.get(name, "").rstrip("/"))
    ]
    places = {folder: place for place, folder in reversed(list(enumerate(folders)))}
    active.sort(key=lambda one: places.get(f"{one[0]}/bin", len(folders)))
    for prefix, why in active:
        if (path := _in_environment(host, prefix)) and path not in seen:
            seen.add(path)
            yield path, why
    for folder in folders:
        path = posixpath.join(folder, "python3")
        beside = posixpath.join(folder, "python")
        if not {path, beside} & seen and _exists(host, path):
            seen.add(path)
            yield path, "it is python3 on PATH"
    for prefix in _conda_environments(host, variables):
        path = _in_environment(host, prefix) or ""
        if path and not {path, f"{prefix}/bin/python3"} & seen:
            seen.add(path)
            yield path, "it belongs to a conda environment"
    for prefix in (f"{variables.get('HOME', '').rstrip('/')}/npu-env", "/opt/npu-env"):
        path = f"{prefix}/bin/python"
        if _exists(host, f"{prefix}/{ENVIRONMENT_MARKER}") and _exists(host, path) and path not in seen:
            seen.add(path)
            yield path, "python.create has made its environment"


def _conda_environments(host: Host, variables: Mapping[str, str]) -> Iterator[str]:
    """The environments that conda has noted, then those below the usual roots, the roots themselves last."""
    home = variables.get("HOME", "").rstrip("/")
    noted: list[str] = []
    with contextlib.suppress(Unavailable):
        if home:
            noted = [line.strip() for line in host.read(f"{home}/.conda/environments.txt").splitlines()]
    roots = [posixpath.dirname(posixpath.dirname(variables.get("CONDA_EXE", "")))]
    roots += [f"{home}/{name}" for name in _CONDA_ROOTS if home]
    roots += ["/opt/conda", "/opt/miniconda3", "/opt/miniforge3", "/opt/anaconda3"]
    below = []
    for root in roots:
        with contextlib.suppress(Unavailable):
            below += [f"{root}/envs/{name}" for name in host.list_dir(f"{root}/envs")] if root.strip("/") else []
    yield from dict.fromkeys(path for path in [*noted, *below, *roots] if path.startswith("/") and path != "/")


def _holds_torch_npu(host: Host, python: str) -> bool:
    """Whether metadata of torch_npu is in one of its package folders; nothing is run."""
    for folder in package_folders(host, python):
        with contextlib.suppress(Unavailable):
            if any(re.fullmatch(_TORCH_NPU, name) for name in host.list_dir(folder)):
                return True
    return False


def package_folders(host: Host, python: str) -> Iterator[str]:
    """The folders where packages of an interpreter may lie, by its path alone; those of other versions are left out."""
    prefix = posixpath.dirname(posixpath.dirname(python))
    version = re.search(r"python(\d+\.\d+)$", real_path(host, python))
    for library in ("lib", "lib64", "local/lib"):
        with contextlib.suppress(Unavailable):
            for name in host.list_dir(f"{prefix}/{library}"):
                if not name.startswith("python3"):
                    continue
                if version and name not in ("python3", f"python{version[1]}"):
                    continue
                yield f"{prefix}/{library}/{name}/site-packages"
                yield f"{prefix}/{library}/{name}/dist-packages"


def _is_own(host: Host, python: str) -> bool:
    """Whether this is the interpreter, or the environment, that npudoctor itself runs in."""
    own = host.about.own_prefix
    prefix = posixpath.dirname(posixpath.dirname(python))
    return own is not None and real_path(host, prefix) == real_path(host, own)


@probe
def python_environment(host: Host, python: TargetPython) -> PythonEnvironment:
    """From a script of the standard library that the target Python runs; nothing heavy is imported there."""
    newer = f"Python {OLDEST[0]}.{OLDEST[1]} or newer"
    done = host.run_in_target("environment", python.path, timeout=TARGET_TIMEOUT_S)
    if done.timed_out:
        raise Unavailable(f"{python.path} timed out after {TARGET_TIMEOUT_S:g} s", because=Because.TIMED_OUT)
    if "SyntaxError" in done.stderr and not done.stdout.strip():
        raise Unavailable(
            f"{python.path} is older than Python 3.6; name one of {newer} with --python", because=Because.FAILED
        )
    try:
        found = parse_environment(done.stdout)
    except ParseError:
        last = (done.stderr.strip().splitlines() or ["it printed nothing that npudoctor understands"])[-1]
        raise Unavailable(f"{python.path} is not a working Python: {last[:160]}", because=Because.FAILED) from None
    if found.release < (3, 6):
        raise Unavailable(
            f"{python.path} is Python {found.version}; name one of {newer} with --python", because=Because.FAILED
        )
    user = host.target_user(python.path)
    return found if user.uid == host.user.uid else replace(found, run_as=user.name)


@record(frozen=True)
class TorchPair:
    """The torch and the torch_npu that are installed together."""

    torch: Distribution
    torch_npu: Distribution


@probe(of_the_moment=True)
def torch_pair(environment: PythonEnvironment) -> TorchPair:
    """Both, or the check that says what is missing."""
    if environment.torch is None:
        raise Unavailable("torch not installed in this Python", blocked_by="python.torch")
    if environment.torch_npu is None:
        raise Unavailable("torch_npu not installed in this Python", blocked_by="python.torch-npu")
    return TorchPair(environment.torch, environment.torch_npu)

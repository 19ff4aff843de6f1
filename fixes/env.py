"""The environment of jobs: one managed file that sources CANN's script and corrects variables."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator, Mapping

from npudoctor.facts.cann.packages import Nnal
from npudoctor.facts.cann.settings import CannSettings
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.target_python import PythonEnvironment, TargetPython
from npudoctor.records import dataclass, field
from npudoctor.sdk import (
    Effect,
    Host,
    Note,
    Parameters,
    ParseError,
    Refused,
    Risk,
    Step,
    Unavailable,
    WriteFile,
    fix,
    text_of,
    writing,
)

from . import messages

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
SYSTEM_FILE = "/etc/profile.d/npudoctor.sh"
OWN_FILE = ".config/npudoctor/env.sh"
LINE = f'[ -r "$HOME/{OWN_FILE}" ] && . "$HOME/{OWN_FILE}"  # npudoctor: env.profile\n'
_OTHER_SHELLS = {
    "fish": (".config/fish/conf.d/npudoctor.fish", "fish"),
    "tcsh": (".config/npudoctor/env.csh", "csh"),
    "csh": (".config/npudoctor/env.csh", "csh"),
}
"""Login shells that do not read .profile: the file that would be theirs (fish reads it by itself), and its language."""

_A_FILE = "--set scope=file path=/path/of/a/file"
BEGIN, END = "# >>> npudoctor env.profile >>>\n", "# <<< npudoctor env.profile <<<\n"


@dataclass(frozen=True)
class Environment(Parameters):
    """`set` and `unset` are variables to correct. `scope` is user, system, python (the activation of the inspected
    Python's environment), or file: any `path`, for a `shell` (sh, fish, csh, systemd).
    """

    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    scope: str = "user"
    path: str = ""
    shell: str = "sh"


@dataclass(frozen=True)
class Visible(Parameters):
    """`value` is the corrected list of chips, empty to unset it; `scope` is user or python, as for env.profile."""

    value: str = ""
    scope: str = "user"


@fix(
    "env.profile",
    resolves=(
        "cann.environment",
        "cann.single",
        "env.values",
        "env.misspelled",
        "env.debug-leftovers",
        "hccl.interface",
    ),
    risk=Risk.SAFE,
    effect=Effect.NEW_LOGIN,
)
def env_profile(
    asked: Environment,
    host: Host,
    settings: CannSettings | None,
    nnal: Nnal | None,
    environment: JobEnvironment | None,
    python: PythonEnvironment | None,
    target: TargetPython | None,
) -> Iterator[Step | Note]:
    """Load CANN and corrected variables from a managed profile script.

    It sources the matching set_env.sh (and NNAL's) if no CANN is loaded yet, and sets or unsets the given variables;
    each line says why. npudoctor itself never executes these scripts.
    """
    from npudoctor.facts.node import job_profile

    if asked.scope not in ("user", "system", "python", "file") or asked.shell not in job_profile.SHELLS:
        raise Refused(messages.SCOPES.text(shells=list(job_profile.SHELLS)))
    if asked.scope == "system" and (own := job_profile.OF_A_JOB & asked.set.keys()):
        raise Refused(messages.OF_ONE_JOB.text(name=min(own)), instead="--set scope=user")
    home = environment.filled("ASCEND_HOME_PATH") if environment is not None else None
    if not asked.set and not asked.unset and settings is None:
        raise Unavailable(messages.NO_SET_ENV.text())
    here = asked.path if asked.scope == "file" else _managed(asked.scope, host, python)
    earlier, encoding = text_of(host, here)
    sourced = not home or not _there(host, home) or job_profile.GUARD in earlier or asked.scope == "file"
    profile = job_profile.Profile(
        settings=settings if sourced else None,
        nnal=nnal if sourced and nnal is not None and nnal.abis else None,
        abi=_abi(host, nnal, target),
        sets=asked.set,
        unsets=asked.unset,
    )
    mine = _block(earlier) if asked.scope == "python" else earlier
    text = job_profile.render(profile.checked().with_earlier(mine if asked.shell == "sh" else ""), asked.shell)
    yield from _trusted(asked.scope, host, profile)
    if asked.scope == "python" and here.endswith("/bin/activate"):
        yield WriteFile(here, _with_block(earlier, text), encoding=encoding)
        return
    yield from writing(host, here, text)
    if asked.scope == "user":
        yield from _sourced_at_login(host)


def _trusted(scope: str, host: Host, profile: object) -> Iterator[Note]:
    """In a file that every login reads, only scripts that root alone can write are sourced."""
    from npudoctor.facts.node.job_profile import Profile
    from npudoctor.sdk import untrusted_writer

    assert isinstance(profile, Profile)
    scripts = [profile.settings.script if profile.settings else None, profile.nnal.set_env if profile.nnal else None]
    for script in filter(None, scripts):
        if scope == "system" and (problem := untrusted_writer(host, script, only_root=True)):
            reason = messages.SCRIPT_NOT_TRUSTED.text(script=script, problem=problem)
            raise Refused(reason, instead="--set scope=user")
    if scope == "python":
        yield Note(messages.AT_ACTIVATION.text(), messages.VISIBLE_AT_ACTIVATION.text())
    elif scope == "file":
        yield Note(messages.SOURCE_IT.text(), messages.NOTHING_READS_IT.text())


def _there(host: Host, path: str) -> bool:
    with contextlib.suppress(Unavailable):
        return host.exists(path)
    return False


def _abi(host: Host, nnal: Nnal | None, target: TargetPython | None) -> int:
    """The C++ ABI of the inspected torch from its files, without starting it."""
    from npudoctor.facts.python import torch_abi
    from npudoctor.facts.python.target_python import package_folders

    if nnal is not None and len(nnal.abis) == 1:
        return nnal.abis[0]
    for folder in package_folders(host, target.path) if target is not None else ():
        with contextlib.suppress(Unavailable, ParseError):
            return int(torch_abi.parse(host.read(f"{folder}/{torch_abi.BELOW}")))
    return 1


def _managed(scope: str, host: Host, python: PythonEnvironment | None) -> str:
    """The file of a scope."""
    if scope == "system":
        return SYSTEM_FILE
    if scope == "user":
        home = _home(host)[0]
        if not _there(host, home):
            raise Refused(messages.NO_HOME.text(user=host.user.name, path=home), instead=_A_FILE)
        return f"{home}/{OWN_FILE}"
    if python is None or python.prefix is None:
        raise Unavailable(messages.PREFIX_UNKNOWN.text())
    if host.exists(f"{python.prefix}/conda-meta"):
        return f"{python.prefix}/etc/conda/activate.d/npudoctor.sh"
    if host.exists(f"{python.prefix}/bin/activate"):
        return f"{python.prefix}/bin/activate"
    raise Refused(messages.NOT_AN_ENVIRONMENT.text(path=python.prefix), instead="--set scope=user")


def _home(host: Host) -> tuple[str, str]:
    """Home folder and shell of the current user."""
    with contextlib.suppress(Unavailable):
        for line in host.read("/etc/passwd").splitlines():
            fields = line.split(":")
            if len(fields) == 7 and fields[2] == str(host.user.uid) and fields[5].startswith("/"):
                return fields[5].rstrip("/") or "/", fields[6]
    home = host.environ.get("HOME", "")
    if not home.startswith("/"):
        raise Unavailable(messages.HOME_UNKNOWN.text(user=host.user.name))
    return home.rstrip("/"), host.environ.get("SHELL", "/bin/bash")


def _with_block(activate: str, text: str) -> str:
    """A venv's activation script with our block in its place, or at its end."""
    before, _, rest = activate.partition(BEGIN)
    before = before if before.endswith("\n") or not before else f"{before}\n"
    return f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}"


def _sourced_at_login(host: Host) -> Iterator[Step]:
    """One line in each start-up file that does not have it yet."""
    home, shell = _home(host)
    if (kind := posixpath.basename(shell)) in _OTHER_SHELLS:
        reason = messages.OTHER_SHELL.text(shell=kind)
        where = f"{home}/{_OTHER_SHELLS[kind][0]}"
        raise Refused(reason, instead=f"--set scope=file path={where} shell={_OTHER_SHELLS[kind][1]}")
    for name in _start_up(host, home, shell):
        old, encoding = text_of(host, f"{home}/{name}")
        if LINE not in old:
            line = LINE if old.endswith("\n") or not old else f"\n{LINE}"
            yield WriteFile(f"{home}/{name}", old + line, encoding=encoding)


def _start_up(host: Host, home: str, shell: str) -> list[str]:
    """The files that the user's shell reads at a login, and for a new terminal."""
    if posixpath.basename(shell) == "zsh":
        return [".zprofile", *([".zshrc"] if host.exists(f"{home}/.zshrc") else [])]
    known = [name for name in (".bash_profile", ".bash_login", ".profile") if host.exists(f"{home}/{name}")]
    return [known[0] if known else ".profile", *([".bashrc"] if host.exists(f"{home}/.bashrc") else [])]


def _block(text: str) -> str:
    return text.partition(BEGIN)[2].partition(END)[0]


@fix("env.visible-devices", resolves=("env.visible-devices",), risk=Risk.SAFE, effect=Effect.NEW_LOGIN)
def visible_devices(asked: Visible, host: Host, environment: JobEnvironment) -> Iterator[Step | Note]:
    """Correct ASCEND_RT_VISIBLE_DEVICES in the user's profile.

    It is a variable of one job: it goes into the user's own file, never into one that every job of the node reads.
    """
    import re

    if not re.fullmatch(r"(\d+(,\d+)*)?", asked.value):
        raise Refused(messages.NOT_A_LIST.text(value=asked.value))
    if asked.scope not in ("user", "python"):
        raise Refused(messages.SCOPES_OF_JOB.text())
    told = Environment(
        set={VISIBLE: asked.value} if asked.value else {}, unset=() if asked.value else (VISIBLE,), scope=asked.scope
    )
    yield from env_profile(told, host, None, None, environment, None, None)

"""The environment of jobs: one managed file that sources CANN's script and corrects variables."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from npudoctor.facts.cann.packages import Nnal
from npudoctor.facts.cann.settings import CannSettings, JobPaths, LinkerFolders
from npudoctor.facts.cann.startup_files import SourcingLine, StartupFiles
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.job_variables import SettingLine
from npudoctor.facts.python.target_python import PythonEnvironment, TargetPython
from npudoctor.records import field, record
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


@record(frozen=True)
class Environment(Parameters):
    """`set` and `unset` are variables to correct, `append` folders that path lists lack. `remove` are lines of start-up
    files, as in /root/.bashrc:12, that set variables of one job or source a second CANN. `scope` is user, system,
    python (the activation of the inspected Python's environment), or file: a new `path`, for a `shell` (sh, fish, csh,
    systemd).
    """

    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    append: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    scope: str = "user"
    path: str = ""
    shell: str = "sh"


@record(frozen=True)
class Visible(Parameters):
    """`value` is the corrected list of chips, empty to unset it."""

    value: str = ""


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
    paths: JobPaths | None,
    linker: LinkerFolders | None,
    nnal: Nnal | None,
    environment: JobEnvironment | None,
    python: PythonEnvironment | None,
    target: TargetPython | None,
    startup: StartupFiles | None,
) -> Iterator[Step | Note]:
    """Load CANN and corrected variables from a managed profile script.

    It sources the matching set_env.sh (and NNAL's) if no CANN is loaded yet, or again if something replaces a part of
    it later, and sets or unsets the given variables; each line says why. npudoctor itself never executes these scripts.
    Variables of one job (RANK, MASTER_ADDR, ASCEND_RT_VISIBLE_DEVICES) are never written there: the line that sets one
    is put out of force.
    """
    from npudoctor.facts.node import job_profile

    _must_be_possible(asked)
    home = environment.non_empty("ASCEND_HOME_PATH") if environment is not None else None
    if settings is None and not (asked.set or asked.unset or asked.append or asked.remove):
        raise Unavailable(messages.NO_SET_ENV.text())
    repaired = _replaced_later(settings, environment, paths, linker) if home and _there(host, home) else {}
    files = _without_lines(host, asked.remove, startup)
    here = asked.path if asked.scope == "file" else _managed_file(asked.scope, host, python)
    earlier, encoding = text_of(host, here)
    if asked.scope == "file" and earlier and not earlier.startswith(job_profile.HEAD):
        raise Refused(messages.NOT_OURS.text(path=here), instead=_A_FILE)
    sourced = not home or not _there(host, home) or asked.scope == "file"
    needed = bool(settings is not None and (sourced or repaired)) or asked.set or asked.unset or asked.append
    if needed or job_profile.HEAD in earlier:
        sourced = sourced or bool(repaired) or job_profile.GUARD in earlier
        profile = job_profile.Profile(
            settings=settings if sourced else None,
            home=home or "",
            repaired=repaired,
            appended=asked.append,
            nnal=nnal if sourced and nnal is not None and nnal.abis else None,
            abi=_abi(host, nnal, target),
            sets=asked.set,
            unsets=asked.unset,
        )
        mine = _block(earlier) if asked.scope == "python" else earlier
        text = job_profile.render(profile.validate().with_earlier(mine if asked.shell == "sh" else ""), asked.shell)
        yield from _trust_notes(asked.scope, host, profile)
        if asked.scope == "python" and here.endswith("/bin/activate"):
            yield WriteFile(here, _with_block(earlier, text), encoding=encoding)
        else:
            yield from writing(host, here, text)
        if asked.scope == "user":
            _sourced_at_login(host, files)
    for path, (content, encoded) in files.items():
        yield WriteFile(path, content, encoding=encoded)


def _must_be_possible(asked: Environment) -> None:
    """Raise Refused for a scope that there is not, and for variables of a job in a file that logins read."""
    from npudoctor.facts.cann import startup_files
    from npudoctor.facts.node import job_profile
    from npudoctor.facts.node.job_variables import belongs_to_a_job

    if asked.scope not in ("user", "system", "python", "file") or asked.shell not in job_profile.SHELLS:
        raise Refused(messages.SCOPES.text(shells=list(job_profile.SHELLS)))
    own = sorted(filter(belongs_to_a_job, (*asked.set, *asked.unset)))
    if own and (asked.scope != "file" or startup_files.is_one(asked.path) or asked.path.startswith("/etc/profile.d/")):
        raise Refused(messages.OF_ONE_JOB.text(name=own[0]), instead=_A_FILE)


def _replaced_later(
    settings: CannSettings | None,
    environment: JobEnvironment | None,
    paths: JobPaths | None,
    linker: LinkerFolders | None,
) -> dict[str, str]:
    """The variables of which a job that has this CANN lacks a part, each with a folder that is missing in it."""
    from npudoctor.facts.cann.settings import is_optional, missing_entries

    if settings is None or environment is None or paths is None:
        return {}
    mine, home = paths.entries.get("ASCEND_HOME_PATH"), settings.single.get("ASCEND_HOME_PATH")
    if not mine or home is None or mine[0].real != home.real:
        return {}
    found = {
        name: ""
        for name, entry in settings.single.items()
        if entry.there and not any(one.there for one in paths.entries.get(name, ()))
    }
    for name in settings.lists:
        lacking = [one.text for one in missing_entries(name, settings, paths, linker) if not is_optional(one)]
        found |= {name: lacking[0]} if lacking else {}
    return found


def _without_lines(host: Host, asked: Iterable[str], startup: StartupFiles | None) -> dict[str, tuple[str, str]]:
    """The start-up files without these lines, by path, each with its encoding."""
    from npudoctor.facts.node import job_variables

    lines: tuple[SourcingLine | SettingLine, ...] = (*startup.lines, *startup.setting) if startup is not None else ()
    known = {str(line): line for line in lines}
    numbers: dict[str, set[int]] = {}
    for name in asked:
        line = known.get(name)
        if line is None and _is_out_of_force(host, name, startup):
            continue
        if line is None:
            raise Refused(messages.NOT_A_SETTING_LINE.text(line=name))
        if not line.removable:
            raise Refused(messages.LINE_DOES_MORE.text(line=name))
        numbers.setdefault(line.path, set()).add(line.line_number)
    found = {}
    for path, there in numbers.items():
        text, encoding = text_of(host, path)
        found[path] = (job_variables.without(text, path, sorted(there)), encoding)
    return found


def _is_out_of_force(host: Host, name: str, startup: StartupFiles | None) -> bool:
    """Whether an earlier run has put this line out of force."""
    from npudoctor.facts.node import job_variables

    path, _, number = name.rpartition(":")
    if startup is None or path not in startup.looked_in or not re.fullmatch("[1-9][0-9]{0,6}", number):
        return False
    lines = text_of(host, path)[0].split("\n")
    return int(number) <= len(lines) and lines[int(number) - 1].startswith(job_variables.OUT_OF_FORCE)


def _trust_notes(scope: str, host: Host, profile: object) -> Iterator[Note]:
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


def _managed_file(scope: str, host: Host, python: PythonEnvironment | None) -> str:
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


def _sourced_at_login(host: Host, files: dict[str, tuple[str, str]]) -> None:
    """Add one line to each start-up file that does not have it yet."""
    home, shell = _home(host)
    if (kind := posixpath.basename(shell)) in _OTHER_SHELLS:
        reason = messages.OTHER_SHELL.text(shell=kind)
        where = f"{home}/{_OTHER_SHELLS[kind][0]}"
        raise Refused(reason, instead=f"--set scope=file path={where} shell={_OTHER_SHELLS[kind][1]}")
    for name in _start_up(host, home, shell):
        path = f"{home}/{name}"
        old, encoding = files.get(path) or text_of(host, path)
        if LINE not in old:
            line = LINE if old.endswith("\n") or not old else f"\n{LINE}"
            files[path] = (old + line, encoding)


def _start_up(host: Host, home: str, shell: str) -> list[str]:
    """The files that the user's shell reads at a login, and for a new terminal."""
    if posixpath.basename(shell) == "zsh":
        return [".zprofile", *([".zshrc"] if host.exists(f"{home}/.zshrc") else [])]
    known = [name for name in (".bash_profile", ".bash_login", ".profile") if host.exists(f"{home}/{name}")]
    return [known[0] if known else ".profile", *([".bashrc"] if host.exists(f"{home}/.bashrc") else [])]


def _block(text: str) -> str:
    return text.partition(BEGIN)[2].partition(END)[0]


@fix("env.visible-devices", resolves=("env.visible-devices",))
def visible_devices(asked: Visible, environment: JobEnvironment, startup: StartupFiles | None) -> Iterator[Step | Note]:
    """Print the corrected ASCEND_RT_VISIBLE_DEVICES for the job.

    It changes nothing. The variable belongs to one job, so that no login file gets it; the line of a start-up file that
    sets it is named.
    """
    from npudoctor.facts.node.job_variables import setters

    if not re.fullmatch(r"(\d+(,\d+)*)?", asked.value):
        raise Refused(messages.NOT_A_LIST.text(value=asked.value))
    command = f"export {VISIBLE}={asked.value}" if asked.value else f"unset {VISIBLE}"
    yield Note(messages.BEFORE_THE_JOB.text(text=command))
    for line in setters(startup.setting if startup is not None else (), environment, [VISIBLE]):
        yield Note(messages.SET_BY_LINE.text(line=line, text=line.text))
        if line.removable:
            yield Note(messages.REMOVE_LINE.text(text=f"npudoctor fix env.profile --set remove={line}"))

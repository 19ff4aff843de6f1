"""Where a shell gets CANN's environment from: the lines of start-up files and activation hooks that source it."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator, Mapping

from npudoctor.facts.node import job_variables
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.job_variables import SettingLine
from npudoctor.records import record, replace
from npudoctor.sdk import Because, Host, Unavailable, probe

FOR_ALL = ("/etc/profile", "/etc/bash.bashrc", "/etc/bashrc")
OF_A_HOME = (".bash_profile", ".bash_login", ".profile", ".bashrc", ".zshrc", ".zprofile")
FOLDER = "/etc/profile.d"
LEFT_OUT = "# (left out of this recording)"

_ALONE = (
    r"\s{0,99}(?:(?:\[ [^;|&]* \]|test [^;|&]*) && )?(?:source|\.)\s{1,9}[^\s;|&]+(?:\s{1,9}[\w=.-]+)*"
    r"\s{0,9}(?:>\s{0,9}/dev/null)?\s{0,9};?\s{0,9}(?:#.*)?"
)
"""A line that sources one script and does nothing else."""

_SOURCES = r"(?:^|[\s;&|(])(?:source|\.)\s+[\"']?([^\s\"';&|)]*(?:set_env\.sh|setenv\.bash))"


@record(frozen=True, kw_only=True)
class SourcingLine:
    """One line that sources a script of CANN or NNAL, counted from 1; `script` has the home folder written out.

    `removable`: it does nothing else, so that it can be taken out. `there` is False where the script is known to be
    gone.
    """

    path: str
    line_number: int
    script: str
    removable: bool = True
    there: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line_number}"


@record(frozen=True)
class StartupFiles:
    """The lines that were found, in the order in which shells read the files, and which files those were.

    `lines` source a script of CANN or NNAL, `setting` set variables that belong to one job.
    """

    lines: tuple[SourcingLine, ...]
    looked_in: tuple[str, ...]
    setting: tuple[SettingLine, ...] = ()

    @property
    def gone(self) -> tuple[SourcingLine, ...]:
        """The lines that source a script which is not there."""
        return tuple(line for line in self.lines if not line.there)

    def of(self, *scripts: str) -> tuple[SourcingLine, ...]:
        """The lines that source one of these scripts."""
        return tuple(line for line in self.lines if line.script in scripts)


def parse(text: str, path: str, home: str) -> tuple[SourcingLine, ...]:
    """Read one file; comments do not count."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if "env" in line and not line.lstrip().startswith("#"):
            for script in re.findall(_SOURCES, line):
                for spelled in ("${HOME}", "$HOME", "~"):
                    if home and script.startswith(f"{spelled}/"):
                        script = home + script[len(spelled) :]
                alone = re.fullmatch(_ALONE, line) is not None
                script = posixpath.normpath(script)
                found.append(SourcingLine(path=path, line_number=number, script=script, removable=alone))
    return tuple(found)


def is_one(path: str) -> bool:
    """Whether a path is that of a start-up file or an activation hook."""
    name = posixpath.basename(path)
    if path in (*FOR_ALL, job_variables.SYSTEM_WIDE) or name in OF_A_HOME:
        return True
    return path.endswith("/bin/activate") or "/activate.d/" in path


def reduce_startup_file(text: str) -> str:
    """A start-up file as it may be recorded: of what a person has written there, only the lines that are read here."""
    lines = text.splitlines()
    setting = {line.line_number for line in job_variables.parse("\n".join(lines), "")}
    kept = [
        line if number in setting or re.search(_SOURCES, line) else LEFT_OUT if line.strip() else ""
        for number, line in enumerate(lines, 1)
    ]
    return "\n".join([*kept, ""])


def _paths(host: Host, variables: Mapping[str, str]) -> Iterator[str]:
    yield job_variables.SYSTEM_WIDE
    yield FOR_ALL[0]
    yield from _scripts(host, FOLDER)
    yield from FOR_ALL[1:]
    if (home := variables.get("HOME", "")).startswith("/"):
        yield from (f"{home.rstrip('/')}/{name}" for name in OF_A_HOME)
    if (conda := variables.get("CONDA_PREFIX", "")).startswith("/"):
        yield from _scripts(host, f"{conda}/etc/conda/activate.d")
    if (venv := variables.get("VIRTUAL_ENV", "")).startswith("/"):
        yield f"{venv}/bin/activate"


def _scripts(host: Host, folder: str) -> Iterator[str]:
    with contextlib.suppress(Unavailable):
        yield from (f"{folder}/{name}" for name in host.list_dir(folder) if name.endswith(".sh"))


@probe
def startup_files(host: Host, environment: JobEnvironment) -> StartupFiles:
    """From the files that bash, zsh, conda and virtual environments read, as far as this user may read them."""
    lines: list[SourcingLine] = []
    setting: list[SettingLine] = []
    looked_in = []
    home = environment.get("HOME", "").rstrip("/")
    unknown: Unavailable | None = None
    for path in _paths(host, environment):
        try:
            text = host.read(path)
            lines += parse(text, path, home)
            setting += job_variables.parse(text, path)
            looked_in.append(path)
        except Unavailable as why:
            unknown = why if why.because is Because.NOT_RECORDED else unknown
    if unknown is not None and not looked_in:
        raise unknown
    gone = {line.script for line in lines if _is_gone(host, line.script)}
    told = tuple(replace(line, there=False) if line.script in gone else line for line in lines)
    return StartupFiles(told, tuple(looked_in), tuple(setting))


def _is_gone(host: Host, script: str) -> bool:
    with contextlib.suppress(Unavailable):
        return script.startswith("/") and "$" not in script and not host.exists(script)
    return False

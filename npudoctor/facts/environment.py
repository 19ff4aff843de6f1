"""The variables of a job, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.knowledge.values import Kind
from npudoctor.records import dataclass
from npudoctor.sdk import Because, FileStat, Host, Unavailable, probe


@dataclass(frozen=True, slots=True, eq=False)
class JobEnvironment(Mapping[str, str]):
    """The variables that a job started here would have; `whose` is process, login:USER, pid:N or file."""

    variables: Mapping[str, str]
    whose: str = "process"

    def __getitem__(self, name: str) -> str:
        return self.variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def filled(self, name: str) -> str | None:
        """The value of a variable; None where it is unset or empty, which the vendor's software takes for the same."""
        return self.variables.get(name) or None


@probe
def job_environment(host: Host) -> JobEnvironment:
    """The variables of this process, of a login, or of another process: what the person who asked has decided."""
    try:
        return JobEnvironment(dict(host.environ), host.about.environment)
    except Unavailable as why:
        reason = why.reason if why.reason.startswith("no job environment") else f"no job environment: {why.reason}"
        raise Unavailable(reason, because=why.because, blocked_by=why.blocked_by) from why


_NAMING_PATHS = (Kind.DIRECTORY, Kind.DIRECTORIES, Kind.FILE)


@dataclass(frozen=True, slots=True)
class NamedPaths:
    """What lies at the absolute paths that variables of the catalogue name; None where nothing does.

    A path that this user may not look at, or that was not recorded, is left out.
    """

    stats: Mapping[str, FileStat | None]


@probe
def named_paths(host: Host, environment: JobEnvironment) -> NamedPaths:
    """From stat, for the variables whose legal value is a path."""
    found: dict[str, FileStat | None] = {}
    for variable in knowledge.environment().variables:
        value = environment.filled(variable.name)
        if value is None or variable.rule is None or variable.rule.kind not in _NAMING_PATHS:
            continue
        for path in (part.strip() for part in value.split(":")):
            if not path.startswith("/"):
                continue
            try:
                found[path] = host.stat(path)
            except Unavailable as why:
                if why.because is Because.ABSENT:
                    found[path] = None
    return NamedPaths(found)

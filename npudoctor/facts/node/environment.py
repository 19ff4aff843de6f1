"""The variables of a job, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.numbers import shorten_numbers
from npudoctor.knowledge.values import Kind
from npudoctor.privacy.credentials import HIDDEN, masked_by_shape, names_a_secret
from npudoctor.records import record
from npudoctor.sdk import Because, FileStat, Host, Unavailable, probe


@record(frozen=True, eq=False)
class JobEnvironment(Mapping[str, str]):
    """The variables that a job started here would have; `whose` is process, login:USER, pid:N or file.

    Only those that npudoctor knows, and likely misspellings of them; of the `others`, which may hold secrets, only how
    many there are.
    """

    variables: Mapping[str, str]
    whose: str = "process"
    others: int = 0

    def __getitem__(self, name: str) -> str:
        return self.variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def non_empty(self, name: str) -> str | None:
        """The value of a variable; None where it is unset or empty, which the vendor's software takes for the same."""
        return self.variables.get(name) or None


def kept_variables(environ: Mapping[str, str], *, recording: bool = False) -> dict[str, str]:
    """The variables that a fact may hold, masked; of those that no recording holds a fact says that they are set."""
    known = knowledge.environment()
    names = known.recorded if recording else known.recorded | {variable.name for variable in known.variables}
    kept = {}
    for name, value in environ.items():
        if names_a_secret(name) or (name in names and name not in known.recorded):
            value = HIDDEN if value else ""
        leads = name.startswith("ASCEND_") and value.startswith("/")
        if name in names or leads or known.misspelling_of(name) is not None:
            kept[name] = shorten_numbers(masked_by_shape(value))
    return kept


@probe
def job_environment(host: Host) -> JobEnvironment:
    """The variables of this process, of a login, or of another process: what the person who asked has decided."""
    kept = kept_variables(host.environ)
    return JobEnvironment(kept, host.about.environment, len(host.environ) - len(kept))


_NAMING_PATHS = (Kind.DIRECTORY, Kind.DIRECTORIES, Kind.FILE)


@record(frozen=True)
class NamedPaths:
    """What lies at the absolute paths that variables of the catalogue name; None where nothing does.

    A path that this user may not look at, or that was not recorded, is left out.
    """

    stats: Mapping[str, FileStat | None]


@probe(of_the_moment=True)
def named_paths(host: Host, environment: JobEnvironment) -> NamedPaths:
    """From stat, for the variables whose legal value is a path."""
    found: dict[str, FileStat | None] = {}
    for variable in knowledge.environment().variables:
        value = environment.non_empty(variable.name)
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

"""The variables of a job, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from npudoctor.sdk import Host, Unavailable, probe


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

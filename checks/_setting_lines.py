"""What corrects variables of the environment: the managed profile, or for those of one job the line that sets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npudoctor.facts.cann.startup_files import StartupFiles
from npudoctor.facts.node.job_variables import SettingLine, belongs_to_a_job, setters
from npudoctor.records import replace
from npudoctor.sdk import Evidence, Finding, FixOffer

PROFILE = "env.profile"


def lines_that_set(
    startup: StartupFiles | None, environment: Mapping[str, str], *names: str
) -> tuple[SettingLine, ...]:
    """The lines of start-up files from which these variables of a job may have their values."""
    return tuple(setters(startup.setting, environment, names)) if startup is not None else ()


def evidence_of(lines: Iterable[SettingLine]) -> tuple[Evidence, ...]:
    """Each line with its file and number."""
    return tuple(Evidence(source=str(line), actual=line.text) for line in lines)


def unsetting(startup: StartupFiles | None, environment: Mapping[str, str], *names: str) -> FixOffer | None:
    """The fix that takes variables away: None for those of a job that no line sets which could be removed.

    A login file never unsets a variable of a job: a launcher may have set it before.
    """
    own = [name for name in names if not belongs_to_a_job(name)]
    of_job = [name for name in names if belongs_to_a_job(name) and name in environment]
    lines = lines_that_set(startup, environment, *of_job)
    if not all(any(line.removable and name in line.names for line in lines) for name in of_job):
        return None
    if not all(line.removable for line in lines):
        return None
    params: dict[str, object] = {"unset": own} if own else {}
    if lines:
        params["remove"] = [str(line) for line in lines]
    return FixOffer(id=PROFILE, params=params) if params else None


def naming_lines(
    finding: Finding, startup: StartupFiles | None, environment: Mapping[str, str], *names: str
) -> Finding:
    """A finding about variables of a job with the lines that set them, and with their removal as its fix."""
    lines = lines_that_set(startup, environment, *names)
    fix = unsetting(startup, environment, *names)
    return replace(finding, evidence=(*finding.evidence, *evidence_of(lines)), fix=fix)


def is_below(value: str, roots: Iterable[str]) -> bool:
    """Whether a path of a variable is in one of these directories."""
    return any(f"{part.strip()}/".startswith(f"{root.rstrip('/')}/") for part in value.split(":") for root in roots)

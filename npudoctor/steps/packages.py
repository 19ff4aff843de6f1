"""Steps that change the packages of a Python environment, with the files of what is replaced kept for the way back."""

from __future__ import annotations

from npudoctor.host import Host, MutableHost
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, messages, run_changing, run_command

INSTALL_TIMEOUT_S = 3600.0


@record(frozen=True, kw_only=True)
class KeepPackages:
    """Install into an environment; the files of the distributions in `replaced` are kept in an archive before that.

    `installer` is the command that installs. `changes` says name, old and new version (empty for none). `again` is for
    what an earlier step of the same plan removes.
    """

    python: str
    installer: tuple[str, ...]
    changes: tuple[tuple[str, str, str], ...]
    archive: str
    again: bool = False

    def preview(self, _: Host) -> str:
        """Each package old → new, and the command."""
        return _show_changes(self.changes) + messages.RUNS.text(command=" ".join(self.installer))

    def inverse(self, _: Host) -> Step:
        """The kept files put back."""
        return RestorePackages(
            python=self.python,
            changes=tuple((name, new, old) for name, old, new in self.changes),
            archive=self.archive,
        )

    def holds(self, host: Host) -> bool:
        """Whether every package has its new version."""
        return versions(host, self.python, self.changes) == [new for _, _, new in self.changes]

    def obstacle(self, _: Host) -> Obstacle | None:
        """Decided by the planner."""
        return None

    def apply(self, host: MutableHost) -> None:
        """Keep, then install."""
        _must_be_own(host, self.python)
        names = tuple(name for name, old, _ in self.changes if old)
        keep = (self.python, "-I", "-B", host.own_script("packages"), "keep", self.archive, *names)
        keeping = run_command(host, keep, 600.0)
        if keeping.returncode != 0:
            lines = (keeping.stderr or keeping.stdout).strip().splitlines() or [messages.NO_ANSWER.text()]
            raise StepFailed(messages.NOT_KEPT.text(problem=lines[-1][:200]))
        run_changing(host, self.installer, INSTALL_TIMEOUT_S)
        run_changing(host, (self.python, "-I", "-B", host.own_script("packages"), "done", self.archive), 60.0)


@record(frozen=True, kw_only=True)
class RestorePackages:
    """Put the kept files of earlier distributions back in the place of those that replaced them."""

    python: str
    changes: tuple[tuple[str, str, str], ...]
    archive: str

    def preview(self, _: Host) -> str:
        """Each package old → new."""
        return _show_changes(self.changes)

    def inverse(self, _: Host) -> Step | None:
        """None: installing anew is a fix of its own."""
        return None

    def holds(self, host: Host) -> bool:
        """Whether every package has its version of before."""
        return versions(host, self.python, self.changes) == [new for _, _, new in self.changes]

    def obstacle(self, _: Host) -> Obstacle | None:
        """Nothing forbids the way back."""
        return None

    def apply(self, host: MutableHost) -> None:
        """Remove what came, put back what was there."""
        _must_be_own(host, self.python)
        names = tuple(name for name, _, _ in self.changes)
        argv = (self.python, "-I", "-B", host.own_script("packages"), "restore", self.archive, *names)
        run_changing(host, argv, 600.0)


def _show_changes(changes: tuple[tuple[str, str, str], ...]) -> str:
    absent, gone = messages.NOT_INSTALLED.text(), messages.REMOVED.text()
    return "".join(
        messages.PACKAGE_CHANGES.text(name=name, old=old or absent, new=new or gone) for name, old, new in changes
    )


def _must_be_own(host: MutableHost, python: str) -> None:
    """Raise StepFailed for an environment that another user can change: root runs nothing in it and copies nothing."""
    user = host.target_user(python)
    if user.uid != host.user.uid:
        raise StepFailed(messages.RUN_AS.text(path=python, user=user.name))


def versions(host: Host, python: str, changes: tuple[tuple[str, str, str], ...]) -> list[str]:
    """The installed version of each package, empty where it is not installed."""
    import json

    done = host.run_in_target("environment", python, timeout=60.0)
    try:
        known = json.loads(done.stdout.strip().splitlines()[-1])["distributions"]
    except (ValueError, IndexError, KeyError) as problem:
        raise StepFailed(messages.PACKAGES_UNKNOWN.text(path=python)) from problem
    return [str(known.get(name, {}).get("version", "")) for name, _, _ in changes]

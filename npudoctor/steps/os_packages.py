"""A step that installs packages of the operating system, and its way back, which removes those and nothing else.

dpkg and rpm themselves refuse to remove what another package needs; apt-get and dnf would remove that one, too.
"""

from __future__ import annotations

import re
import shlex

from npudoctor.host import Host, MutableHost
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, messages, run_changing

INSTALL_TIMEOUT_S = 3600.0
REMOVE_TIMEOUT_S = 1800.0
APT = "apt-get"
_DPKG_ROWS = "${Package} ${Version} ${db:Status-Status}\\n"
_RPM_ROWS = "%{NAME} %|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}.%{ARCH}\\n"
_NEEDED = r"\bdepends on\b|\bis needed by\b"
"""What dpkg and rpm say of a package that another one needs; the lines after it only count."""

_ABSENT = frozenset({"not-installed", "config-files"})


@record(frozen=True)
class SystemPackages:
    """Install packages that are not there, each in one version; with `present` False remove them.

    `tool` is apt-get, dnf or yum. `packages` are name and version; the version of an rpm ends in its architecture.
    """

    tool: str
    packages: tuple[tuple[str, str], ...]
    present: bool = True

    def preview(self, _: Host) -> str:
        """Each package, and the command."""
        none, removed = messages.NOT_INSTALLED.text(), messages.REMOVED.text()
        shown = "".join(
            messages.PACKAGE_CHANGES.text(name=name, old=none, new=version)
            if self.present
            else messages.PACKAGE_CHANGES.text(name=name, old=version, new=removed)
            for name, version in self.packages
        )
        return shown + messages.RUNS.text(command=shlex.join(self.command))

    def inverse(self, _: Host) -> Step:
        """The other way round: only what is not there is ever installed."""
        return SystemPackages(self.tool, self.packages, not self.present)

    def holds(self, host: Host) -> bool:
        """Whether all of them are installed, or none."""
        there = self._there(host)
        return set(self.packages) <= {one for one, whole in there.items() if whole} if self.present else not there

    def obstacle(self, host: Host) -> Obstacle | None:
        """Only root installs packages; what another package needs by now, or somebody has upgraded, stays."""
        if host.user.uid != 0:
            return Obstacle(messages.PACKAGES_BY_ROOT.text(), root=True)
        if not host.which(self.tool):
            return Obstacle(messages.COMMAND_NOT_FOUND.text(command=self.tool))
        there = {} if self.present else self._there(host)
        if other := sorted(name for name, version in there if (name, version) not in self.packages):
            return Obstacle(messages.PACKAGES_CHANGED.text(names=other))
        if whole := tuple(one for one in self.packages if there.get(one)):
            test = "--simulate" if self.tool == APT else "--test"
            tool, *words = self._removal(whole)
            done = host.run([tool, test, *words])
            if done.returncode != 0:
                lines = (done.stderr or done.stdout).strip().splitlines() or [messages.NO_ANSWER.text()]
                why = next((line for line in lines if re.search(_NEEDED, line)), lines[-1])
                return Obstacle(messages.PACKAGES_NEEDED.text(problem=why.strip()[:200]))
        return None

    @property
    def command(self) -> tuple[str, ...]:
        """The command that installs, or removes."""
        if self.tool == APT and self.present:
            options = ("--yes", "--no-remove", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=60")
            named = (f"{name}={version}" for name, version in self.packages)
            return ("env", "DEBIAN_FRONTEND=noninteractive", APT, *options, "install", *named)
        if self.present:
            return (
                self.tool,
                "-y",
                "--setopt=install_weak_deps=False",
                "install",
                *(f"{name}-{version}" for name, version in self.packages),
            )
        return self._removal(self.packages)

    def _removal(self, packages: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
        if self.tool == APT:
            return ("dpkg", "--purge", "--force-remove-reinstreq", *(name for name, _ in packages))
        return ("rpm", "-e", *(f"{name}-{_without_epoch(version)}" for name, version in packages))

    def apply(self, host: MutableHost) -> None:
        """Install, or remove what of it is there; a package that somebody has upgraded since is left alone."""
        if self.present:
            run_changing(host, self.command, INSTALL_TIMEOUT_S)
        else:
            there = self._there(host)
            if found := tuple(one for one in self.packages if one in there):
                run_changing(host, self._removal(found), REMOVE_TIMEOUT_S)
        if not self.holds(host.fresh()):
            raise StepFailed(messages.PACKAGES_NOT_PROVED.text(names=[name for name, _ in self.packages]))

    def _there(self, host: Host) -> dict[tuple[str, str], bool]:
        """What is there of these names, by name and version, and whether it is installed as a whole."""
        found = installed_packages(host, self.tool, [name for name, _ in self.packages])
        if self.tool == APT:
            return found
        # A system may have several versions of an rpm, such as kernel-devel: only those of this step count.
        return {one: whole for one, whole in found.items() if one in self.packages}


def installed_packages(host: Host, tool: str, names: list[str]) -> dict[tuple[str, str], bool]:
    """The packages of these names that are there, by name and version, and whether each is installed as a whole."""
    if tool == APT:
        rows = (row.split() for row in host.run(["dpkg-query", "-W", "-f", _DPKG_ROWS, *names]).stdout.splitlines())
        # one that is half removed may have no version
        cells = ([row[0], "", row[1]] if len(row) == 2 else row for row in rows)
        return {(row[0], row[1]): row[2] == "installed" for row in cells if len(row) == 3 and row[2] not in _ABSENT}
    rows = (row.split() for row in host.run(["rpm", "-q", "--qf", _RPM_ROWS, *names]).stdout.splitlines())
    return {(row[0], row[1]): True for row in rows if len(row) == 2}


def _without_epoch(version: str) -> str:
    return re.sub(r"^\d+:", "", version)

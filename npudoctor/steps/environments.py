"""A step that makes a Python environment in a new folder, and its way back, which removes what npudoctor put there."""

from __future__ import annotations

import contextlib
import re
import shlex

from npudoctor.host import Host, MutableHost, Unavailable
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, messages, run_changing
from npudoctor.steps.files import obstacle_to, untrusted_writer
from npudoctor.steps.packages import INSTALL_TIMEOUT_S, versions

MARKER = ".npudoctor"
"""The file in an environment that says that npudoctor has made it: without it nothing there is removed."""

REMOVE_TIMEOUT_S = 1800.0
_COME_ALONG = frozenset({"pip", "setuptools", "wheel", "packaging"})


@record(frozen=True, kw_only=True)
class CreateEnvironment:
    """Make an environment in a folder that has nothing but the marker, and install packages into it.

    `create` and `installer` are the commands; `packages` are name and version.
    """

    path: str
    create: tuple[str, ...]
    installer: tuple[str, ...]
    packages: tuple[tuple[str, str], ...]

    def preview(self, _: Host) -> str:
        """Each package, and both commands."""
        absent = messages.NOT_INSTALLED.text()
        shown = (messages.PACKAGE_CHANGES.text(name=name, old=absent, new=new) for name, new in self.packages)
        runs = (messages.RUNS.text(command=shlex.join(argv)) for argv in (self.create, self.installer))
        return "".join((*shown, *runs))

    def inverse(self, _: Host) -> Step:
        """What is in it removed."""
        return RemoveEnvironment(path=self.path, packages=self.packages)

    def holds(self, host: Host) -> bool:
        """Whether npudoctor made it, and every package has its version."""
        if not host.exists(f"{self.path}/{MARKER}") or not host.exists(self._python):
            return False
        return versions(host, self._python, self._changes) == [version for _, version in self.packages]

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder that is not writable or that others control."""
        return obstacle_to(host, f"{self.path}/{MARKER}")

    def apply(self, host: MutableHost) -> None:
        """Make it, install, and ask it what it has."""
        if list(host.list_dir(self.path)) != [MARKER]:
            raise StepFailed(messages.ENVIRONMENT_IS_THERE.text(path=self.path))
        run_changing(host, self.create, INSTALL_TIMEOUT_S)
        run_changing(host, self.installer, INSTALL_TIMEOUT_S)
        if not self.holds(host.fresh()):
            raise StepFailed(messages.PACKAGES_NOT_PROVED.text(names=[name for name, _ in self.packages]))

    @property
    def _python(self) -> str:
        return f"{self.path}/bin/python"

    @property
    def _changes(self) -> tuple[tuple[str, str, str], ...]:
        return tuple((name, "", version) for name, version in self.packages)


@record(frozen=True, kw_only=True)
class RemoveEnvironment:
    """Remove what is in an environment that npudoctor made, but for the marker.

    Refused where it has packages other than `packages` by then, or is in use.
    """

    path: str
    packages: tuple[tuple[str, str], ...]

    def preview(self, _: Host) -> str:
        """The folder."""
        return messages.ENVIRONMENT_REMOVED.text(path=self.path)

    def inverse(self, _: Host) -> Step | None:
        """None: making it anew is a fix of its own."""
        return None

    def holds(self, host: Host) -> bool:
        """Whether nothing but the marker is there, or it is not npudoctor's."""
        return not host.exists(f"{self.path}/{MARKER}") or list(host.list_dir(self.path)) == [MARKER]

    def obstacle(self, host: Host) -> Obstacle | None:
        """Packages that somebody has added, and processes that have its files loaded."""
        if self.holds(host):
            return None
        if others := sorted(_distributions(host, self.path) - {name for name, _ in self.packages} - _COME_ALONG):
            return Obstacle(messages.ENVIRONMENT_CHANGED.text(path=self.path, names=others))
        if pid := mapping_process(host, rf"{re.escape(self.path)}/"):
            return Obstacle(messages.ENVIRONMENT_IN_USE.text(path=self.path, pid=pid))
        return obstacle_to(host, f"{self.path}/{MARKER}")

    def apply(self, host: MutableHost) -> None:
        """Remove all but the marker, which goes last."""
        if self.holds(host):
            return
        if problem := untrusted_writer(host, self.path):
            raise StepFailed(problem)
        kept = ("!", "-path", f"{self.path}/{MARKER}")
        run_changing(host, ("find", self.path, "-xdev", "-mindepth", "1", *kept, "-delete"), REMOVE_TIMEOUT_S)


def _distributions(host: Host, path: str) -> set[str]:
    """The names of what is installed in an environment, by the folders of their metadata."""
    found = set()
    for library in ("lib", "lib64"):
        with contextlib.suppress(Unavailable):
            for series in host.list_dir(f"{path}/{library}"):
                with contextlib.suppress(Unavailable):
                    names = host.list_dir(f"{path}/{library}/{series}/site-packages")
                    found |= {
                        re.sub(r"[-_.]+", "-", name.split("-")[0]).lower()
                        for name in names
                        if re.search(_METADATA, name)
                    }
    return found


_METADATA = r"\.(dist-info|egg-info|egg-link)$"


def mapping_process(host: Host, path: str) -> int | None:
    """A process that has a file mapped whose path begins with this expression."""
    needle = re.compile(f" {path}")
    for row in host.measure("processes"):
        with contextlib.suppress(Unavailable):
            if needle.search(host.read(f"/proc/{row['pid']}/maps")):
                return int(row["pid"])
    return None

"""Steps that install a vendor's package of CANN and remove it with the package's own uninstaller."""

from __future__ import annotations

import contextlib
import re
import shlex

from npudoctor.host import Host, MutableHost, Unavailable
from npudoctor.records import record
from npudoctor.steps import Obstacle, Step, StepFailed, messages, run_changing
from npudoctor.steps.files import RemoveFile, SetLink, WriteFile, obstacle_to, untrusted_writer

INSTALL_TIMEOUT_S = 7200.0
COPY_TIMEOUT_S = 3600.0
_VERSION = r"(?i)(?<![a-z_])version\s*[:=]\s*(\S+)"
_REMOVABLE = r"/.+/(cann-\d[^/]*|ascend-toolkit/\d[^/]*|nnal/atb/\d[^/]*)"
_SOURCED = '. "$1" && shift && exec bash "$@"'


def not_roots(host: Host, package: str) -> str | None:
    """Why root does not run a package: another user can change it; None where no other user can."""
    problem = untrusted_writer(host, package, only_root=True)
    return messages.PACKAGE_NOT_TRUSTED.text(problem=problem) if problem else None


def copy_package(host: MutableHost, package: str, copy: str, sha256: str) -> None:
    """Copy a package to where only this user can change it; raises StepFailed unless it is the one of the preview."""
    run_changing(host, ("cp", "--", package, copy), COPY_TIMEOUT_S)
    compare_copy(host, package, copy, sha256)


def compare_copy(host: MutableHost, package: str, copy: str, sha256: str) -> None:
    """Raise StepFailed unless the copy of a package has the SHA-256 of the preview."""
    if run_changing(host, ("sha256sum", "--", copy), COPY_TIMEOUT_S).split()[:1] != [sha256]:
        raise StepFailed(messages.PACKAGE_CHANGED.text(path=package))


@record(frozen=True, kw_only=True)
class InstallPackage:
    """Run a package from a copy that only this user can change, once its SHA-256 is that of the preview.

    `proof` is the file that then says `version`. `makes` is the folder that only this plan makes; empty where it was
    there before. `links` and `texts` are what the installer also writes and what is put back after it, with the target
    or the content (empty or None: not there); with `default` only undoing puts them back. `script` is sourced first.
    `private_copy` is given by the runner.
    """

    package: str
    sha256: str
    options: tuple[str, ...]
    proof: str
    version: str
    uninstaller: str
    makes: str = ""
    links: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str | None], ...] = ()
    default: bool = False
    script: str = ""
    private_copy: str = ""

    def preview(self, _: Host) -> str:
        """The file with its SHA-256, and the command with the script that is sourced first."""
        command = shlex.join(("bash", self.package, *self.options))
        if self.script:
            command = f". {shlex.quote(self.script)} && {command}"
        return messages.PACKAGE_RUNS.text(sha256=self.sha256, command=command)

    def inverse(self, _: Host) -> Step:
        """Its own uninstaller."""
        return UninstallPackage(
            uninstaller=self.uninstaller,
            proof=self.proof,
            version=self.version,
            makes=self.makes,
            links=self.links,
            texts=self.texts,
        )

    def holds(self, host: Host) -> bool:
        """Whether this version is installed as a whole."""
        return installed_version(host, self.proof) == self.version.lower()

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder that is not writable or that others control, or what root would run and others can change."""
        if problem := self._not_trusted(host):
            return Obstacle(problem)
        return obstacle_to(host, self.proof)

    def _not_trusted(self, host: Host) -> str | None:
        """Why root must run neither the package nor the script; None for other users, who run it with their rights."""
        if host.user.uid != 0:
            return None
        if problem := not_roots(host, self.package):
            return problem
        if self.script and (problem := untrusted_writer(host, self.script, only_root=True)):
            return messages.SCRIPT_NOT_TRUSTED.text(script=self.script, problem=problem)
        return None

    def apply(self, host: MutableHost) -> None:
        """Copy, compare, install, and read what is installed; the exit code alone says nothing."""
        if problem := self._not_trusted(host):
            raise StepFailed(problem)
        try:
            copy_package(host, self.package, self.private_copy, self.sha256)
            argv = ("bash", self.private_copy, *self.options)
            if self.script:
                argv = ("bash", "-c", _SOURCED, "bash", self.script, *argv[1:])
            output = run_changing(host, argv, INSTALL_TIMEOUT_S)
        finally:
            host.remove(self.private_copy)
        if not self.holds(host.fresh()):
            raise StepFailed(messages.NOT_PROVED.text(path=self.proof, version=self.version), output=output)
        if not self.default:
            put_back(host, self.links, self.texts)


@record(frozen=True, kw_only=True)
class UninstallPackage:
    """Remove what a package installed with its own uninstaller; the rest of the folder stays.

    An interrupted installation that cannot be uninstalled is removed with the folder that it made.
    """

    uninstaller: str
    proof: str
    version: str
    makes: str = ""
    links: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str | None], ...] = ()

    def preview(self, _: Host) -> str:
        """The uninstaller."""
        return messages.RUNS.text(command=shlex.join(("bash", self.uninstaller)))

    def inverse(self, _: Host) -> Step | None:
        """None: installing anew is a fix of its own."""
        return None

    def holds(self, host: Host) -> bool:
        """Whether it is not installed."""
        return not host.exists(self.proof) and not host.exists(self.uninstaller)

    def obstacle(self, host: Host) -> Obstacle | None:
        """A folder that is not writable or that others control."""
        return obstacle_to(host, self.proof)

    def apply(self, host: MutableHost) -> None:
        """Uninstall, remove an interrupted installation, and put links and texts back."""
        whole = host.exists(self.proof)
        if host.exists(self.uninstaller):
            if problem := untrusted_writer(host, self.uninstaller):
                raise StepFailed(problem)
            with contextlib.nullcontext() if whole else contextlib.suppress(StepFailed):
                run_changing(host, ("bash", self.uninstaller), INSTALL_TIMEOUT_S)
        fresh = host.fresh()
        if fresh.exists(self.proof):
            raise StepFailed(messages.STILL_INSTALLED.text(path=self.proof))
        if not whole and self.makes and fresh.exists(self.makes) and re.fullmatch(_REMOVABLE, self.makes):
            if problem := untrusted_writer(host, self.makes):
                raise StepFailed(problem)
            run_changing(host, ("rm", "-rf", "--one-file-system", "--", self.makes), COPY_TIMEOUT_S)
        put_back(host, self.links, self.texts)


def put_back(host: MutableHost, links: tuple[tuple[str, str], ...], texts: tuple[tuple[str, str | None], ...]) -> None:
    """Give links and small files what they had; what is so already is not written."""
    fresh = host.fresh()
    steps: list[Step] = [SetLink(path, target) for path, target in links]
    steps += [RemoveFile(path) if text is None else WriteFile(path, text) for path, text in texts]
    for one in steps:
        if not one.holds(fresh):
            one.apply(host)


def installed_version(host: Host, proof: str) -> str:
    """The version that the record of an installation says, in small letters; empty without one."""
    with contextlib.suppress(Unavailable):
        found = re.search(_VERSION, host.read(proof))
        return found[1].lower() if found else ""
    return ""

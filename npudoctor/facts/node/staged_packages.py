"""The package files in the folders that the person named (`--packages`), as facts of a run."""

from __future__ import annotations

from npudoctor.records import record
from npudoctor.sdk import Because, Options, Unavailable, probe

NONE_NAMED = "no folder of packages named (--packages FOLDER)"


@record(frozen=True, kw_only=True)
class Package:
    """One package file. What is None is not known, or does not apply.

    `component` is an id of the table of installation (`driver`, `toolkit`, `torch`), or wheel, conda or source for
    others. `families` are the chip families that it is for (empty: any). `arch` is aarch64 or x86_64 (None: any).
    `python` is major.minor, `abi` the wheel's ABI tag, `glibc` the oldest that a wheel runs on. `told_by` is `name`,
    `header` or `name and header`. `signature` is the file beside it or in it. `accepts` are the firmware (of a driver)
    or the drivers (of a firmware) as its own version.info has them. `requires_torch` is the requirement in a wheel's
    metadata. `holds` are the names in an archive. `problem` is one line that says why it cannot be used; such a package
    is in no set.
    """

    path: str
    name: str
    format: str
    component: str
    title: str
    told_by: str
    size_bytes: int = 0
    version: str | None = None
    arch: str | None = None
    families: tuple[str, ...] = ()
    tag: str | None = None
    os: str | None = None
    python: str | None = None
    abi: str | None = None
    glibc: str | None = None
    patch: str | None = None
    signature: str | None = None
    digest: str | None = None
    label: str | None = None
    accepts: str | None = None
    requires_torch: str | None = None
    holds: tuple[str, ...] = ()
    problem: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether nothing is known that speaks against the file itself."""
        return self.problem is None


@record(frozen=True)
class OtherFile:
    """A file that is no package; `what` says in one line what it is, or why it is not known."""

    path: str
    what: str


@record(frozen=True, kw_only=True)
class StagedPackages:
    """What is in the folders. `cut_off` is set where there were more files than are read."""

    folders: tuple[str, ...]
    packages: tuple[Package, ...] = ()
    others: tuple[OtherFile, ...] = ()
    cut_off: str | None = None

    @property
    def usable(self) -> tuple[Package, ...]:
        """The packages against which nothing is known."""
        return tuple(package for package in self.packages if package.usable)


@probe
def staged_packages(options: Options) -> StagedPackages:
    """From the folders that were read when the command began."""
    if options.packages is None:
        raise Unavailable(NONE_NAMED, because=Because.NOT_APPLICABLE)
    found: StagedPackages = options.packages
    return found

"""Packages of the operating system that building the driver's modules needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.node.container import Container
from npudoctor.facts.system.platform import Platform
from npudoctor.records import record
from npudoctor.sdk import Host, Note, Parameters, Refused, Step, SystemPackages, fix, installed_packages

from . import messages

RESOLVE_TIMEOUT_S = 600.0
_NAME = r"[A-Za-z0-9][A-Za-z0-9+._~-]*"
_APT_NEW = r"(?m)^Inst (\S+) \((\S+) "
_APT_CHANGED = r"(?m)^(?:Inst (\S+) \[|(?:Remv|Purg) (\S+))"
_DNF_NEW = ("installing", "installing dependencies", "installing group/module packages")


@record(frozen=True)
class OsPackages(Parameters):
    """`packages` are names of packages; empty for those that building the driver's modules needs here."""

    packages: tuple[str, ...] = ()


@fix("system.packages", resolves=("install.tools", "install.module-build"), root=True)
def install_system_packages(
    asked: OsPackages, host: Host, platform: Platform | None, container: Container | None
) -> Iterator[Step | Note]:
    """Install the system's packages that the driver's installer needs.

    Compiler, dkms, the headers of the running kernel, and the tools that it calls, by apt-get, dnf or yum: resolved
    first, then exactly what was resolved. Refused where a package would be upgraded or removed for it. Undo removes
    only what was not there before, and refuses if something else needs it by then.
    """
    if container is not None and not asked.packages:
        raise Refused(messages.PACKAGES_OF_HOST.text())
    tool = next((name for name in ("apt-get", "dnf", "yum") if host.which(name)), None)
    if tool is None:
        raise Refused(messages.NO_PACKAGE_MANAGER.text())
    os_id, kernel = (platform.os_id or "", platform.kernel or "") if platform else ("", "")
    names = list(asked.packages or knowledge.install().driver_packages(os_id, kernel))
    if not names or not (kernel or asked.packages):
        raise Refused(messages.SYSTEM_NOT_IN_TABLE.text(), instead="--set packages=NAME,NAME")
    for name in names:
        if not re.fullmatch(_NAME, name):
            raise Refused(messages.NOT_A_PACKAGE.text(name=name))
    there = {name for (name, _), whole in installed_packages(host, tool, names).items() if whole}
    # `kernel-devel-5.10.0-1` is the package kernel-devel in one version
    missing = [name for name in names if name not in there and not (tool != "apt-get" and _is_there(host, name))]
    if not missing:
        return
    yield Note(messages.PACKAGES_MISSING_HERE.text(names=missing))
    yield SystemPackages(tool, _by_apt(host, missing) if tool == "apt-get" else _by_dnf(host, tool, missing))


def _is_there(host: Host, name: str) -> bool:
    return host.run(["rpm", "-q", name]).returncode == 0


def _by_apt(host: Host, names: list[str]) -> tuple[tuple[str, str], ...]:
    """What apt-get would install, as its simulation prints it."""
    done = host.run(["apt-get", "--simulate", "--no-install-recommends", "install", *names], timeout=RESOLVE_TIMEOUT_S)
    if done.timed_out or done.returncode != 0:
        raise Refused(_why("apt-get", done.stderr + done.stdout, "apt-get update"))
    if changed := [new or old for new, old in re.findall(_APT_CHANGED, done.stdout)]:
        raise Refused(messages.WOULD_CHANGE_OTHERS.text(names=changed))
    return _resolve("apt-get", [(name, version) for name, version in re.findall(_APT_NEW, done.stdout)])


def _by_dnf(host: Host, tool: str, names: list[str]) -> tuple[tuple[str, str], ...]:
    """What dnf or yum would install, from the table that it prints before it asks; the answer is no."""
    argv = [tool, "--assumeno", "--setopt=install_weak_deps=False", "install", *names]
    done = host.run(argv, timeout=RESOLVE_TIMEOUT_S)
    new, changed = parse_transaction(done.stdout)
    if done.timed_out or not (new or changed):
        raise Refused(_why(tool, done.stderr + done.stdout, f"{tool} makecache"))
    if changed:
        raise Refused(messages.WOULD_CHANGE_OTHERS.text(names=changed))
    return _resolve(tool, new)


def parse_transaction(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The table of a transaction: what is new, with its version and architecture, and names of what else changes.

    A name that is too long for its column has the other columns on the next line.
    """
    new: list[tuple[str, str]] = []
    changed: list[str] = []
    section, held = "", ""
    for line in text.splitlines():
        title = re.fullmatch(r"([A-Z][A-Za-z/ ]+):", line.strip())
        if line.startswith("Transaction Summary"):
            break
        if title:
            section, held = title[1].lower(), ""
        elif section and line.startswith(" "):
            words = [*held.split(), *line.split()]
            held = ""
            if len(words) == 1:
                held = words[0]
            elif len(words) >= 5 and words[0] != "replacing":
                if section in _DNF_NEW:
                    new.append((words[0], f"{words[2]}.{words[1]}"))
                else:
                    changed.append(words[0])
    return new, changed


def _resolve(tool: str, found: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    if not found:
        raise Refused(messages.NOTHING_RESOLVED.text(tool=tool))
    return tuple(sorted(found))


def _why(tool: str, said: str, update: str) -> str:
    """The line that names the problem: of apt-get after `E:`, of dnf after `Error:`, else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("E:", "Error:", "No match for argument:"))] or lines[-1:]
    return messages.NOT_RESOLVED.text(tool=tool, problem=" ".join(named[:2])[:300], update=update)

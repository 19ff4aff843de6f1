"""CANN: installation, environment of a job, and mixtures of several installations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.cann.settings import (
    CannSettings,
    JobPaths,
    LinkerFolders,
    PathEntry,
    is_optional,
    missing_entries,
)
from npudoctor.facts.cann.startup_files import SourcingLine, StartupFiles
from npudoctor.facts.cann.toolkits import Cann, CannInstall, DeadLink
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.imports import TorchNpuImport
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.platform import Platform
from npudoctor.knowledge.pairs import TorchNpuRelease
from npudoctor.sdk import Evidence, Finding, FixOffer, Severity, check

from ._causes import as_evidence
from ._packages import INSTALL_CANN, explain_command, install_cann_commands, package_tag, title
from ._setting_lines import is_below
from .messages import cann as messages

_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64", "x64": "x86_64"}
_SHOWN_LINES = 4
_NEEDED_SINGLE = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH")
_ROOT_OF_ANY_CANN = r"(.*/(?:ascend-toolkit/[^/]+|cann-\d[^/]*|nnae/[^/]+))(?:/|$)"


@check("cann.installed", requires=(SoftwareStack,))
def toolkit_is_installed(
    cann: Cann, platform: Platform, python: PythonEnvironment | None, cards: Chips | None
) -> Iterator[Finding]:
    """CANN toolkit installed for this architecture.

    torch_npu is a thin layer above CANN and cannot be imported without it.
    """
    install = cann.chosen
    if install is None:
        yield _half_removed(cann) if cann.dead_links else _not_installed(cann, _release_of(python), package_tag(cards))
        return
    arch = _ARCHITECTURES.get((install.arch or "").lower(), (install.arch or "").lower())
    machine = _ARCHITECTURES.get(platform.machine, platform.machine)
    if arch and machine and arch != machine:
        yield messages.WRONG_ARCHITECTURE.finding(
            arch=arch,
            machine=machine,
            commands=(
                explain_command(f"./Ascend-cann-toolkit_{install.stated or '<version>'}_linux-{machine}.run --install"),
            ),
            evidence=(Evidence(source=install.info_path or install.root, expected=machine, actual=arch),),
        )
    dead: dict[bool, list[DeadLink]] = {}
    for link in cann.dead_links:
        usual = link.path.rpartition("/")[2] in ("cann", "latest")
        used = any(f"{path}/".startswith(f"{link.path}/") for path in cann.named_in_vain.values())
        if used or (usual and link.path.startswith(_prefix(install))):
            dead.setdefault(used, []).append(link)
    for used, links in dead.items():
        yield messages.BROKEN_LINK.finding(
            severity=Severity.ERROR if used else None,
            path=", ".join(link.path for link in links),
            count=len(links),
            target=", ".join(dict.fromkeys(link.target for link in links)),
            root=install.root,
            remaining=title(install),
            detail=messages.BROKEN_LINK_OF_JOB.text(remaining=title(install)) if used else None,
            commands=tuple(f"ln -sfn {install.root} {link.path}" for link in links),
            fix=_switch_offer(install, links),
            evidence=tuple(
                Evidence(source=link.path, expected=messages.A_CANN.text(), actual=f"-> {link.target}")
                for link in links
            ),
        )


def _prefix(install: CannInstall) -> str:
    return re.sub(r"/(ascend-toolkit/[^/]+|cann-[^/]+)$", "/", install.root)


def _switch_offer(install: CannInstall, links: Sequence[DeadLink]) -> FixOffer | None:
    """The move of the usual links, where all of these are links that lead to an installation of this kind."""
    prefix = _prefix(install)
    usual = [f"{prefix}ascend-toolkit/latest"]
    if install.root.startswith(f"{prefix}cann-"):
        usual.append(f"{prefix}cann")
    movable = all(link.path in usual for link in links)
    return FixOffer(id="cann.switch", params={"to": install.root}) if movable else None


def _release_of(python: PythonEnvironment | None) -> TorchNpuRelease | None:
    """The row of the installed torch_npu, where it names a CANN or a guess of one."""
    torch_npu = python.torch_npu if python is not None else None
    row = knowledge.compatibility().release(torch_npu.version) if torch_npu is not None else None
    return row if row is not None and (row.cann or row.cann_guess) else None


def _not_installed(cann: Cann, paired: TorchNpuRelease | None, chip: str | None) -> Finding:
    releases: tuple[str, ...] = ()
    hint = None
    if paired is not None:
        releases = paired.cann[:1] or paired.cann_guess
        hint = messages.INSTALL_RELEASE.text(releases=releases)
    exact = len(releases) == 1 and "X" not in releases[0]
    version = releases[0] if exact else "<version>"
    usual = ", ".join(place for place in cann.looked_in if place.endswith("/Ascend"))
    return messages.NOT_INSTALLED.finding(
        hint=hint,
        commands=(
            INSTALL_CANN,
            *install_cann_commands(version, chip),
        ),
        evidence=(
            Evidence(source=usual or "the usual places", expected="ascend-toolkit/latest, cann", actual="not found"),
            *(
                Evidence(source=name, expected=messages.A_CANN.text(), actual=messages.NO_CANN_THERE.text(path=path))
                for name, path in cann.named_in_vain.items()
            ),
            *(Evidence(source=path, actual=messages.UNREADABLE.text()) for path in cann.unreadable[:3]),
        ),
    )


def _half_removed(cann: Cann) -> Finding:
    link = cann.dead_links[0]
    return messages.HALF_REMOVED.finding(
        path=link.path,
        target=link.target,
        commands=(f"ls -l {link.path}", explain_command("./Ascend-cann-toolkit_<version>_linux-$(arch).run --install")),
        evidence=tuple(
            Evidence(
                source=dead.path,
                expected=messages.A_CANN.text(),
                actual=messages.LINKS_TO_MISSING.text(target=dead.target),
            )
            for dead in cann.dead_links
        ),
    )


@check("cann.environment", after=("cann.installed",), requires=(SoftwareStack,), fix="env.profile")
def environment_is_loaded(
    cann: Cann,
    settings: CannSettings,
    paths: JobPaths,
    environment: JobEnvironment,
    linker: LinkerFolders | None,
    startup: StartupFiles | None,
    imported: TorchNpuImport | None,
) -> Iterator[Finding]:
    """CANN environment loaded.

    CANN finds its libraries, operators and compiler only through environment variables. A new shell, a service, cron
    and `docker exec` start without them unless a profile sources set_env.sh.
    """
    opp, expected_opp = paths.entries.get("ASCEND_OPP_PATH", ()), settings.single.get("ASCEND_OPP_PATH")
    invalid = dict(cann.named_in_vain)
    if opp and expected_opp and not opp[0].there:
        invalid.setdefault("ASCEND_OPP_PATH", opp[0].text)
    if invalid:
        yield _invalid_paths(invalid, settings, environment, startup)
    if "ASCEND_HOME_PATH" in cann.named_in_vain:
        return
    unset = [name for name in settings.single if not environment.non_empty(name)]
    lacking = {name: entries for name in settings.lists if (entries := missing_entries(name, settings, paths, linker))}
    serious = [name for name in unset if name in _NEEDED_SINGLE]
    serious += [name for name, entries in lacking.items() if not all(map(is_optional, entries))]
    if serious:
        yield _not_loaded(
            settings,
            environment,
            unset,
            lacking,
            startup,
            imported,
            everything="ASCEND_HOME_PATH" in unset and "LD_LIBRARY_PATH" in lacking,
        )
    elif unset or lacking:
        yield messages.OPTIONAL_MISSING.finding(
            variables=[*unset, *lacking], evidence=tuple(_missing_evidence(settings, environment, unset, lacking))
        )


def _invalid_paths(
    invalid: Mapping[str, str], settings: CannSettings, environment: JobEnvironment, startup: StartupFiles | None
) -> Finding:
    """The variables of a CANN that is gone; the fix unsets those that the set_env.sh of another does not replace."""
    gone = startup.gone if startup is not None else ()
    known = {*settings.single, *settings.lists, *invalid}
    left = [name for name, value in environment.items() if name not in known and is_below(value, invalid.values())]
    return messages.INVALID_PATH.finding(
        variable=", ".join(invalid),
        count=len(invalid),
        path=", ".join(dict.fromkeys(invalid.values())),
        installed=title(settings.install),
        hint=_replace_line(gone, settings),
        commands=(*_replacing(gone, settings), *((f"source {settings.script}",) if settings.script else ())),
        evidence=(
            *(Evidence(source=name, expected=settings.install.names[0], actual=path) for name, path in invalid.items()),
            *(Evidence(source=str(line), actual=f"source {line.script}") for line in gone[:_SHOWN_LINES]),
        ),
        fix=FixOffer(id="env.profile", params={"unset": left} if left else {}),
    )


def _replace_line(gone: tuple[SourcingLine, ...], settings: CannSettings) -> str | None:
    """What to do about the lines that source a CANN that is gone; None without one."""
    if not gone:
        return None
    return messages.SOURCES_WHAT_IS_GONE.text(
        lines=list(map(str, gone[:_SHOWN_LINES])),
        count=len(gone),
        script=gone[0].script,
        installed=title(settings.install),
    )


def _replacing(gone: tuple[SourcingLine, ...], settings: CannSettings) -> tuple[str, ...]:
    """The commands that let these lines source the script that is there."""
    if not settings.script:
        return ()
    return tuple(
        f"sed -i '{line.line_number}s|{line.script}|{settings.script}|' {line.path}" for line in gone[:_SHOWN_LINES]
    )


def _not_loaded(
    settings: CannSettings,
    environment: JobEnvironment,
    unset: list[str],
    lacking: Mapping[str, tuple[PathEntry, ...]],
    startup: StartupFiles | None,
    imported: TorchNpuImport | None,
    *,
    everything: bool,
) -> Finding:
    script = settings.script or f"{settings.install.names[0]}/set_env.sh"
    sourced = startup.of(script, *(f"{name}/set_env.sh" for name in settings.install.names)) if startup else ()
    hint = None
    if sourced and everything:
        hint = messages.STARTUP_FILE_NOT_READ.text(path=sourced[0].path)
    elif sourced:
        hint = messages.OVERWRITTEN_LATER.text(path=sourced[0].path, line=sourced[0].line_number)
    gone = startup.gone if startup is not None and not sourced else ()
    commands = (f"source {script}", *(() if sourced or gone else (f"echo 'source {script}' >> ~/.bashrc",)))
    if gone:
        hint, commands = _replace_line(gone, settings), (*_replacing(gone, settings), *commands)
    evidence = (
        *_missing_evidence(settings, environment, unset, lacking),
        *as_evidence(imported.attempt if imported is not None else None, "cann.environment"),
        *_sourcing(startup, script),
    )
    fix, of = FixOffer(id="env.profile"), messages.THIS_PROCESS.text()
    if environment.whose != "process":
        of = messages.ENVIRONMENT_OF.text(whose=environment.whose)
    if everything:
        return messages.NOT_LOADED.finding(
            script=script, environment=of, hint=hint, commands=commands, evidence=evidence, fix=fix
        )
    return messages.INCOMPLETE.finding(
        variables=[*unset, *lacking],
        environment=of,
        detail=messages.LIBRARIES_NOT_FOUND.text(environment=of) if "LD_LIBRARY_PATH" in lacking else None,
        hint=hint,
        commands=commands,
        evidence=evidence,
        fix=fix,
        pitfall="P036" if list(lacking) == ["PYTHONPATH"] else None,
    )


def _sourcing(startup: StartupFiles | None, script: str) -> Iterator[Evidence]:
    """Which start-up files and hooks source a script of CANN, and that none does."""
    if startup is None:
        return
    for line in startup.lines[:4]:
        yield Evidence(source=str(line), expected=f"source {script}", actual=f"source {line.script}")
    if not startup.lines:
        yield Evidence(
            source="shell start-up files", expected=f"source {script}", actual=messages.NOTHING_SOURCED.text()
        )


def _missing_evidence(
    settings: CannSettings,
    environment: JobEnvironment,
    unset: list[str],
    lacking: Mapping[str, tuple[PathEntry, ...]],
) -> Iterator[Evidence]:
    if unset:
        yield Evidence(source=", ".join(unset), expected=settings.single[unset[0]].text, actual="not set")
    for name, entries in lacking.items():
        actual = environment.get(name) or "not set"
        actual = actual if len(actual) <= 160 else actual[:157] + "…"
        yield Evidence(source=name, expected=messages.ALSO.text(entries=_places(entries, settings)), actual=actual)


def _places(entries: tuple[PathEntry, ...], settings: CannSettings) -> list[str]:
    """Folders as a person reads them: those of the CANN below its name, others in full."""
    root = f"{settings.install.names[0]}/"
    inside = [entry.text.removeprefix(root) for entry in entries if entry.text.startswith(root)]
    others = [entry.text for entry in entries if not entry.text.startswith(root)]
    return [*others, *([messages.BELOW.text(root=root, entries=inside)] if inside else [])]


@check("cann.single", after=("cann.installed", "cann.environment"), requires=(SoftwareStack,), fix="env.profile")
def variables_name_one_cann(cann: Cann, paths: JobPaths, startup: StartupFiles | None) -> Iterator[Finding]:
    """Environment variables of one CANN only.

    Two scripts sourced one after the other mix libraries of two releases: symbols are missing, or worse, they are not.
    """
    roots: dict[str, list[str]] = {}
    for name, entries in paths.entries.items():
        if name in ("PATH", "ASCEND_TOOLKIT_LATEST_HOME", "ASCEND_CUSTOM_OPP_PATH"):
            continue
        for entry in entries:
            root = _root_of(entry, cann)
            if root and name not in roots.setdefault(root, []):
                roots[root].append(name)
    if len(roots) > 1:
        known = {install.root: install for install in cann.installs}
        sources = startup.lines[:6] if startup is not None else ()
        yield messages.MIXED.finding(
            count=len(roots),
            **_without_effect(roots, known),
            commands=("grep -n set_env ~/.bashrc ~/.profile /etc/profile /etc/profile.d/*.sh /etc/bash.bashrc",),
            evidence=(
                *(
                    Evidence(
                        source=", ".join(names),
                        expected=messages.ONE_CANN.text(),
                        actual=title(known[root]) if root in known else messages.NOT_INSTALLED_CANN.text(root=root),
                    )
                    for root, names in roots.items()
                ),
                *(Evidence(source=str(line), actual=f"source {line.script}") for line in sources),
            ),
            fix=_without_the_others(cann, sources),
        )
    active = cann.active
    if active is not None and not active.is_default:
        usual = next((one for one in cann.installs if one.is_default), None)
        if usual is not None:
            yield messages.NOT_DEFAULT.finding(
                active=title(active),
                link=usual.names[0],
                default=usual.stated or usual.root,
                evidence=(Evidence(source=usual.names[0], actual=usual.root),),
            )


def _without_effect(roots: Mapping[str, list[str]], known: Collection[str]) -> dict[str, Any]:
    """How little it matters where all but one are folders in lists that were removed: the loader passes them over."""
    removed = [set(names) for root, names in roots.items() if root not in known]
    if len(removed) < len(roots) - 1 or not set().union(*removed) <= {"LD_LIBRARY_PATH", "PYTHONPATH"}:
        return {}
    return {"severity": Severity.INFO, "detail": messages.REMOVED_PASSED_OVER.text()}


def _without_the_others(cann: Cann, sources: tuple[SourcingLine, ...]) -> FixOffer | None:
    """The removal of the lines that source another CANN than the one in force, where one sources that one."""
    active = cann.active
    if active is None:
        return None
    roots = {line: _root_of_script(line.script, cann) for line in sources}
    of_active = [line for line, root in roots.items() if root == active.root]
    others = [line for line, root in roots.items() if root not in (None, active.root)]
    if not of_active or not others or not all(line.removable for line in others):
        return None
    return FixOffer(id="env.profile", params={"remove": [str(line) for line in others]})


def _root_of_script(script: str, cann: Cann) -> str | None:
    """The CANN whose environment a script gives, installed or removed."""
    for install in cann.installs:
        if script == install.set_env or script.startswith(tuple(f"{name}/" for name in (install.root, *install.names))):
            return install.root
    match = re.match(_ROOT_OF_ANY_CANN, script)
    return match[1] if match and not match[1].endswith("/latest") else None


def _root_of(entry: PathEntry, cann: Cann) -> str | None:
    """The CANN that an entry belongs to, installed or removed; None for others, such as NNAL and the driver."""
    if install := cann.holding(entry.real):
        return install.root
    match = re.match(_ROOT_OF_ANY_CANN, entry.real)
    return match[1] if match and not match[1].endswith("/latest") else None

"""CANN: there, in force for a job, and one and not two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.cann.settings import CannSettings, JobPaths, LinkerFolders, PathEntry
from npudoctor.facts.cann.startup_files import StartupFiles
from npudoctor.facts.cann.toolkits import Cann, CannInstall
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.imports import TorchNpuImport
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.platform import Platform
from npudoctor.sdk import Evidence, Finding, FixOffer, Severity, check

from ._causes import as_evidence
from ._packages import operators_package, package_tag

_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64", "x64": "x86_64"}
_NEEDED_SINGLE = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH")
_OPTIONAL_BELOW = "/tools/aml/"
_SOMEBODY_S_ROOT = re.compile(r"(.*/(?:ascend-toolkit/[^/]+|cann-\d[^/]*|nnae/[^/]+))(?:/|$)")


@check("cann.installed", requires=(SoftwareStack,))
def a_toolkit_is_installed(
    cann: Cann, platform: Platform, python: PythonEnvironment | None, cards: Chips | None
) -> Iterator[Finding]:
    """A CANN toolkit is installed, whole, and for this machine's architecture.

    torch_npu is a thin layer above it and cannot even be imported without it.
    """
    install = cann.chosen
    if install is None:
        wanted, chip = _paired_cann(python), package_tag(cards)
        yield _half_removed(cann) if cann.dead_links else _not_installed(cann, wanted, chip)
        return
    arch = _ARCHITECTURES.get((install.arch or "").lower(), (install.arch or "").lower())
    machine = _ARCHITECTURES.get(platform.machine, platform.machine)
    if arch and machine and arch != machine:
        yield Finding(
            summary=f"{install.title} is for {arch}, this machine is {machine}",
            detail="None of its libraries can be loaded.",
            hint=f"Install the package whose name ends in linux-{machine}.run.",
            commands=(f"./Ascend-cann-toolkit_{install.stated or '<version>'}_linux-{machine}.run --install",),
            evidence=(Evidence(source=install.info_path or install.root, expected=machine, actual=arch),),
        )
    for link in cann.dead_links:
        usual = link.path.rpartition("/")[2] in ("cann", "latest")
        used = any(f"{path}/".startswith(f"{link.path}/") for path in cann.named_in_vain.values())
        if used or (usual and link.path.startswith(_prefix(install))):
            yield Finding(
                severity=Severity.ERROR if used else Severity.WARNING,
                summary=f"{link.path} leads to {link.target}, which is gone",
                detail=("The variables of the job go through it" if used else "Scripts and profiles may go through it")
                + f"; the CANN that is left is {install.title}.",
                hint=f"Let it lead to {install.root}, or remove it.",
                commands=(f"ln -sfn {install.root} {link.path}",),
                evidence=(Evidence(source=link.path, expected="a CANN", actual=f"-> {link.target}"),),
                pitfall="P092",
            )


def _prefix(install: CannInstall) -> str:
    return re.sub(r"/(ascend-toolkit/[^/]+|cann-[^/]+)$", "/", install.root)


def _paired_cann(python: PythonEnvironment | None) -> str | None:
    """The CANN that the installed torch_npu pairs with, as the table says it; None where it does not."""
    torch_npu = python.torch_npu if python is not None else None
    row = knowledge.compatibility().release(torch_npu.version) if torch_npu is not None else None
    if row is None or not (row.cann or row.cann_guess):
        return None
    if row.cann:
        return row.cann[0]
    return " or ".join(row.cann_guess) + (" or newer" if row.cann_guess_or_newer else "")


def _not_installed(cann: Cann, wanted: str | None, chip: str | None) -> Finding:
    version = wanted if wanted is not None and " " not in wanted and "X" not in wanted else "<version>"
    pair = f"CANN {wanted}, which pairs with the installed torch_npu" if wanted else "the one that torch_npu pairs with"
    usual = ", ".join(place for place in cann.looked_in if place.endswith("/Ascend"))
    evidence = [
        Evidence(source=usual or "the usual places", expected="ascend-toolkit/latest or cann", actual="neither")
    ]
    evidence += [
        Evidence(source=name, expected="a CANN", actual=f"{path}, which is none")
        for name, path in cann.named_in_vain.items()
    ]
    evidence += [Evidence(source=path, actual="may not be read by this user") for path in cann.unreadable[:3]]
    return Finding(
        summary="no CANN toolkit is installed",
        detail="torch_npu loads its libraries (libhccl.so, libascendcl.so); without them `import torch_npu` fails.",
        hint=f"Install toolkit and operators of one release: {pair}. If a CANN lies in an unusual place, source its "
        "set_env.sh and check again.",
        commands=(
            f"./Ascend-cann-toolkit_{version}_linux-$(arch).run --install",
            f"./{operators_package(version, chip)}_{version}_linux-$(arch).run --install",
        ),
        evidence=tuple(evidence),
    )


def _half_removed(cann: Cann) -> Finding:
    link = cann.dead_links[0]
    return Finding(
        summary=f"CANN is half removed: {link.path} leads to {link.target}, which is gone",
        detail="An uninstall or an upgrade has left the link behind; set_env.sh sets paths that do not exist.",
        hint="Install the toolkit again, or remove what is left.",
        commands=(f"ls -l {link.path}", "./Ascend-cann-toolkit_<version>_linux-$(arch).run --install"),
        evidence=tuple(
            Evidence(source=dead.path, expected="a CANN", actual=f"-> {dead.target}, which does not exist")
            for dead in cann.dead_links
        ),
        pitfall="P092",
    )


@check("cann.environment", after=("cann.installed",), requires=(SoftwareStack,), fix="env.profile")
def set_env_is_in_force(
    cann: Cann,
    settings: CannSettings,
    paths: JobPaths,
    environment: JobEnvironment,
    linker: LinkerFolders | None,
    startup: StartupFiles | None,
    imported: TorchNpuImport | None,
) -> Iterator[Finding]:
    """The variables of CANN's set_env.sh are in force for a job.

    CANN finds its libraries, operators and compiler by variables only. A new shell, a service, cron and `docker exec`
    start without them unless a profile sources the script.
    """
    for name, path in cann.named_in_vain.items():
        yield _leads_nowhere(name, path, settings)
    if "ASCEND_HOME_PATH" in cann.named_in_vain:
        return
    opp, expected_opp = paths.entries.get("ASCEND_OPP_PATH", ()), settings.single.get("ASCEND_OPP_PATH")
    if opp and expected_opp and not opp[0].there:
        yield _leads_nowhere("ASCEND_OPP_PATH", opp[0].text, settings)
    unset = [name for name in settings.single if not environment.filled(name)]
    lacking = {name: entries for name in settings.lists if (entries := _lacking(name, settings, paths, linker))}
    serious = [name for name in unset if name in _NEEDED_SINGLE]
    serious += [name for name, entries in lacking.items() if any(_OPTIONAL_BELOW not in one.text for one in entries)]
    if serious:
        yield _not_in_force(
            settings,
            environment,
            unset,
            lacking,
            startup,
            imported,
            everything="ASCEND_HOME_PATH" in unset and "LD_LIBRARY_PATH" in lacking,
        )
    elif unset or lacking:
        yield Finding(
            severity=Severity.INFO,
            summary=f"{', '.join([*unset, *lacking])} lack something that set_env.sh sets and most jobs can do without",
            evidence=tuple(_missing_evidence(settings, environment, unset, lacking)),
        )


def _lacking(name: str, settings: CannSettings, paths: JobPaths, linker: LinkerFolders | None) -> tuple[PathEntry, ...]:
    """The entries of a path list that exist on disk and that the job does not have under any name."""
    have = set(paths.real(name))
    if name == "LD_LIBRARY_PATH" and linker is not None:
        have.update(linker.folders)
    return tuple(entry for entry in settings.lists[name] if entry.there and entry.real not in have)


def _leads_nowhere(name: str, path: str, settings: CannSettings) -> Finding:
    return Finding(
        summary=f"{name} names {path}, which is no CANN",
        detail="It was removed, moved, or cannot be read by this user. CANN ends with E20002 or finds no operators.",
        hint=f"Source the script of the CANN that is here: {settings.install.title}.",
        commands=(f"source {settings.script}",) if settings.script else (),
        evidence=(Evidence(source=name, expected=settings.install.names[0], actual=path),),
        fix=FixOffer(id="env.profile"),
        pitfall="P066",
    )


def _not_in_force(
    settings: CannSettings,
    environment: JobEnvironment,
    unset: list[str],
    lacking: Mapping[str, tuple[PathEntry, ...]],
    startup: StartupFiles | None,
    imported: TorchNpuImport | None,
    *,
    everything: bool,
) -> Finding:
    whose = "this process" if environment.whose == "process" else f"the job ({environment.whose})"
    names = ", ".join(lacking)
    pitfall = "P001" if everything else "P036" if list(lacking) == ["PYTHONPATH"] else "P037"
    script = settings.script or f"{settings.install.names[0]}/set_env.sh"
    sourced = startup.of(script, *(f"{name}/set_env.sh" for name in settings.install.names)) if startup else ()
    hint = "Source the script in the shell, profile or service that starts the job, after everything else that sets "
    hint += "these variables."
    if sourced and everything:
        hint = f"{sourced[0].path} sources it, but this environment has not been through it: services, cron, `docker "
        hint += "exec` and commands over ssh read no start-up file, or not that one. Source it where the job starts."
    elif sourced:
        hint = (
            f"{sourced[0].path} sources it; something behind line {sourced[0].line_number}, or in a later file, sets "
        )
        hint += "these variables anew. Extend them there: `export LD_LIBRARY_PATH=…:$LD_LIBRARY_PATH`."
    return Finding(
        summary=(
            f"CANN's environment is not in force: {script} was not sourced"
            if everything
            else f"CANN's environment is incomplete: {', '.join(filter(None, [*unset, names]))}"
        ),
        detail=f"The variables of {whose} lack what the script sets. "
        + (
            "`import torch_npu` fails with libhccl.so or libascendcl.so not found."
            if everything or "LD_LIBRARY_PATH" in lacking
            else "Something replaced a variable after the script had set it, instead of extending it."
        ),
        hint=hint,
        commands=(f"source {script}", *(() if sourced else (f"echo 'source {script}' >> ~/.bashrc",))),
        evidence=(
            *_missing_evidence(settings, environment, unset, lacking),
            *as_evidence(imported.attempt if imported is not None else None),
            *_sourcing(startup, script),
        ),
        fix=FixOffer(id="env.profile"),
        pitfall=pitfall,
    )


def _sourcing(startup: StartupFiles | None, script: str) -> Iterator[Evidence]:
    """Which start-up files and hooks source a script of CANN, and that none does."""
    if startup is None:
        return
    for line in startup.lines[:4]:
        yield Evidence(source=str(line), expected=f"source {script}", actual=f"source {line.script}")
    if not startup.lines:
        yield Evidence(source="shell start-up files", expected=f"source {script}", actual="none sources a set_env.sh")


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
        yield Evidence(source=name, expected=f"also {_places(entries, settings)}", actual=actual)


def _places(entries: tuple[PathEntry, ...], settings: CannSettings) -> str:
    """Folders as a person reads them: those of the CANN below its name, others in full."""
    root = f"{settings.install.names[0]}/"
    inside = [entry.text.removeprefix(root) for entry in entries if entry.text.startswith(root)]
    others = [entry.text for entry in entries if not entry.text.startswith(root)]
    return ", ".join([*others, *([f"below {root}: {', '.join(inside)}"] if inside else [])])


@check("cann.single", after=("cann.installed", "cann.environment"), requires=(SoftwareStack,), fix="env.profile")
def all_paths_lead_into_one_cann(cann: Cann, paths: JobPaths, startup: StartupFiles | None) -> Iterator[Finding]:
    """All variables lead into one and the same CANN.

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
        yield Finding(
            severity=Severity.WARNING,
            summary=f"the variables of a job lead into {len(roots)} different CANNs",
            detail="The first folder of a list wins, for each library by itself: a job loads a mixture.",
            hint="Start a clean shell and source exactly one set_env.sh; look for a second one in profiles and images.",
            commands=("grep -n set_env ~/.bashrc ~/.profile /etc/profile /etc/profile.d/*.sh /etc/bash.bashrc",),
            evidence=(
                *(
                    Evidence(
                        source=", ".join(names),
                        expected="one CANN",
                        actual=known[root].title if root in known else f"{root}, which is no CANN that is installed",
                    )
                    for root, names in roots.items()
                ),
                *(
                    Evidence(source=str(line), actual=f"source {line.script}")
                    for line in (startup.lines[:6] if startup is not None else ())
                ),
            ),
            fix=FixOffer(id="env.profile"),
            pitfall="P022",
        )
    active = cann.active
    if active is not None and not active.is_default:
        usual = next((one for one in cann.installs if one.is_default), None)
        if usual is not None:
            yield Finding(
                severity=Severity.INFO,
                summary=f"the job uses {active.title}, while {usual.names[0]} leads to {usual.stated or usual.root}",
                evidence=(Evidence(source=usual.names[0], actual=usual.root),),
            )


def _root_of(entry: PathEntry, cann: Cann) -> str | None:
    """The CANN that an entry lies in, installed or gone; None for what belongs to none, as NNAL and the driver do."""
    if install := cann.holding(entry.real):
        return install.root
    match = _SOMEBODY_S_ROOT.match(entry.real)
    return match[1] if match and not match[1].endswith("/latest") else None

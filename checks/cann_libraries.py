"""CANN's libraries on the path on which the dynamic linker looks for them."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.cann.libraries import OF_THE_DRIVER, CannLibraries, Library, roots
from npudoctor.facts.cann.settings import CannSettings
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Evidence, Finding, FixOffer, check

_SHOWN = 4


@check("cann.libraries", profile="standard", after=("cann.installed", "cann.environment"), requires=(SoftwareStack,))
def libraries_can_be_loaded(
    cann: Cann, libraries: CannLibraries, settings: CannSettings | None, environment: JobEnvironment
) -> Iterator[Finding]:
    """CANN's libraries are found where the linker looks, whole, for this machine, and from one CANN.

    torch_npu is linked against them: one that is missing or damaged ends its import, and one of another release is
    missing symbols.
    """
    install = cann.chosen
    script = settings.script if settings is not None else None
    if libraries.stubs:
        yield _stubs(libraries.stubs, environment)
    damaged = [one for one in libraries.libraries if one.problem is not None]
    if damaged:
        yield _damaged(damaged, install.stated if install is not None else None)
    missing = [one for one in libraries.libraries if one.path is None]
    of_driver = [one for one in missing if one.name == OF_THE_DRIVER and not one.passed_over]
    foreign = [one for one in missing if one.passed_over]
    absent = [one for one in missing if one not in of_driver and one not in foreign]
    if foreign:
        yield _foreign(foreign)
    if absent:
        yield _absent(absent, environment, script, install.stated if install is not None else None)
    if of_driver:
        yield _driver_not_on_path(environment)
    if not (libraries.stubs or damaged or missing):
        yield from _mixed(cann, libraries)


def _names(libraries: list[Library]) -> str:
    names = [one.name for one in libraries]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _path(environment: JobEnvironment) -> Evidence:
    text = environment.get("LD_LIBRARY_PATH") or "not set"
    return Evidence(source="LD_LIBRARY_PATH", actual=text if len(text) <= 160 else text[:157] + "…")


def _install_again(version: str | None) -> str:
    return f"./Ascend-cann-toolkit_{version or '<version>'}_linux-$(arch).run --install"


def _stubs(stubs: tuple[str, ...], environment: JobEnvironment) -> Finding:
    return Finding(
        summary=f"the stubs in {stubs[0]} hide CANN's libraries",
        detail="devlib holds libraries without content, for linking on machines without a card. A job that loads them "
        "finds no card, or ends with undefined symbols.",
        hint="Take the folder out of LD_LIBRARY_PATH, or put it behind lib64.",
        commands=("echo $LD_LIBRARY_PATH | tr : '\\n' | grep -n devlib",),
        evidence=(
            *(Evidence(source="LD_LIBRARY_PATH", expected="lib64 before devlib", actual=one) for one in stubs),
            _path(environment),
        ),
        pitfall="P037",
    )


def _damaged(damaged: list[Library], version: str | None) -> Finding:
    first = damaged[0]
    return Finding(
        summary=f"{_names(damaged)} cannot be loaded: {first.problem}",
        detail="A copy that broke off, a full disk, or an installation that was interrupted leaves such files; the "
        "import of torch_npu ends with `file too short` or `invalid ELF header`.",
        hint="Install the package that it belongs to again.",
        commands=(f"ls -lL {first.path}", _install_again(version)),
        evidence=tuple(
            Evidence(source=one.path or one.name, expected="a whole library", actual=one.problem)
            for one in damaged[:_SHOWN]
        ),
        pitfall="P001",
    )


def _foreign(foreign: list[Library]) -> Finding:
    return Finding(
        summary=f"{_names(foreign)} is only here for another machine",
        detail="The linker passes over libraries of another architecture, and then finds none.",
        hint="Install the package whose name ends in linux-$(arch).run.",
        commands=(f"file -L {foreign[0].passed_over[0].partition(' ')[0]}", _install_again(None)),
        evidence=tuple(
            Evidence(source=one.name, expected="for this machine", actual=", ".join(one.passed_over))
            for one in foreign[:_SHOWN]
        ),
        pitfall="P001",
    )


def _absent(absent: list[Library], environment: JobEnvironment, script: str | None, version: str | None) -> Finding:
    asked = absent[0].asked_by
    because = f", which {asked} needs" if asked is not None else ""
    return Finding(
        summary=f"{_names(absent)}{because}: not found on the library path of a job",
        detail="`import torch_npu` ends with `cannot open shared object file`. set_env.sh is in force, so the file "
        "itself is gone, or a folder that the script does not name is not on the path.",
        hint="Look for the file; where it is nowhere, install the package that brings it again.",
        commands=(
            f"find / -name '{absent[0].name}*' 2>/dev/null",
            *((f"source {script}",) if script else ()),
            _install_again(version),
        ),
        evidence=(
            *(Evidence(source=one.name, expected="on the library path", actual="not found") for one in absent[:_SHOWN]),
            _path(environment),
        ),
        pitfall="P001",
    )


def _driver_not_on_path(environment: JobEnvironment) -> Finding:
    folders = ":".join(f"/usr/local/Ascend/driver/lib64{below}" for below in ("", "/common", "/driver"))
    return Finding(
        summary=f"the driver's {OF_THE_DRIVER} is not on the library path of a job",
        detail="CANN's libraries load it: `libascend_hal.so: cannot open shared object file`. LD_LIBRARY_PATH was "
        "replaced, or the driver's folders are missing in /etc/ld.so.conf.d.",
        hint="Put the driver's folders on the path, behind CANN's.",
        commands=(f"export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{folders}",),
        evidence=(Evidence(source=OF_THE_DRIVER, expected="on the path", actual="not found"), _path(environment)),
        fix=FixOffer(id="env.profile"),
        pitfall="P037",
    )


def _mixed(cann: Cann, libraries: CannLibraries) -> Iterator[Finding]:
    found = list(roots(cann, libraries))
    if len({root for _, root in found}) > 1:
        yield Finding(
            summary="a job loads CANN's libraries from different places: "
            + ", ".join(f"{one.name} from {root}" for one, root in found),
            detail="Libraries of two releases, or a copy of one of them, end with undefined symbols, or quietly with "
            "another behaviour.",
            hint="Start a clean shell, source exactly one set_env.sh, and take out of LD_LIBRARY_PATH what hides it.",
            commands=("echo $LD_LIBRARY_PATH | tr : '\\n'",),
            evidence=tuple(Evidence(source=one.name, expected="one CANN", actual=one.path) for one, _ in found),
            pitfall="P022",
        )

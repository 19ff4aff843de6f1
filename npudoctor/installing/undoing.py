"""What undoes an installation: steps of the same kind, and what stays as it is. Nothing is undone by itself."""

from __future__ import annotations

import re

from npudoctor.facts.driver import version_files
from npudoctor.fixer.journal import Journal
from npudoctor.host import Refused, Unavailable
from npudoctor.host.apart import ApartHost
from npudoctor.installing import proof, state
from npudoctor.installing.state import Step
from npudoctor.knowledge.patterns import canonical_version
from npudoctor.steps import StepFailed, run_changing
from npudoctor.steps.installers import COPY_TIMEOUT_S, not_roots

UNINSTALLER = f"{proof.PREFIX}/driver/script/uninstall.sh"
FIRST = ("--nox11", "--full", "--quiet", "--install-for-all")
OVER = ("--nox11", "--upgrade", "--quiet")
_KEPT = re.compile(r"([^/]+\.run) in (/.+)")


def previous_package(way_back: str) -> str:
    """The package of the version before that a plan names as the way back; empty where it names none."""
    found = _KEPT.fullmatch(way_back)
    return f"{found[2].rstrip('/')}/{found[1]}" if found else ""


def digest(host: ApartHost, path: str) -> str:
    """The SHA-256 of a package; raises Refused where it cannot be read."""
    try:
        return run_changing(host, ("sha256sum", "--", host.outside(path)), COPY_TIMEOUT_S).split()[0]
    except (StepFailed, Unavailable, IndexError) as problem:
        raise Refused(str(problem)) from problem


def plan_undo(host: ApartHost, journal: Journal, run: str) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """The steps that undo a run, newest first, and what stays, each as a line; raises Refused for a run that was
    followed by another version."""
    back: list[Step] = []
    stays: list[str] = []
    _, steps = state.plan_of(journal, run)
    for number, step in reversed([*enumerate(steps, 1)]):
        if state.read_beginning(journal, run, number) is None:
            continue
        made = _driver(host, step) if step.component == "driver" else _firmware_note(step)
        if isinstance(made, Step):
            back.append(made)
        else:
            stays.append(made)
    return tuple(back), tuple(stays)


def _firmware_note(step: Step) -> str:
    before = f"; it was {step.now} before" if step.now else ""
    return f"{step.title} {step.then} stays: it is flashed into the chips, and has no way back{before}"


def _driver(host: ApartHost, step: Step) -> Step | str:
    found = proof.version_at(
        host, f"{proof.PREFIX}/driver/version.info", lambda text: version_files.parse_driver(text).version
    )
    now = str(found) if found is not None else ""
    if now and canonical_version(now) == canonical_version(step.now or "none"):
        return f"{step.title} is {now}, as before"
    if now and canonical_version(now) != canonical_version(step.then or "none"):
        raise Refused(f"{step.title} is {now} now, not {step.then or 'removed'}: undo what was installed since first")
    if not step.now:
        return _removal(host, step, now)
    if not step.back:
        return f"{step.title} {now or 'none'} stays: the package of {step.now} was not in the folder (NO WAY BACK)"
    if not host.exists(step.back):
        return f"{step.title} {now or 'none'} stays: {step.back}, the way back to {step.now}, is not there any more"
    if digest(host, step.back) != step.back_sha256:
        return f"{step.title} {now or 'none'} stays: {step.back}, the way back to {step.now}, has changed since"
    return Step(
        id=step.id,
        component=step.component,
        title=step.title,
        now=now,
        then=step.now,
        way_back=f"{step.source.rpartition('/')[2]} in {step.source.rpartition('/')[0]}",
        source=step.back,
        file="1-driver.run",
        sha256=step.back_sha256,
        options=OVER if now else FIRST,
        back=step.source if step.file else "",
        back_sha256=step.sha256 if step.file else "",
    )


def _removal(host: ApartHost, step: Step, now: str) -> Step | str:
    if not host.exists(UNINSTALLER):
        return f"{step.title} {now or 'none'} stays: {UNINSTALLER} is not there"
    if host.user.uid == 0 and (problem := not_roots(host, UNINSTALLER)):
        raise Refused(problem)
    return Step(
        id=step.id,
        component=step.component,
        title=step.title,
        now=now or step.then,
        then="",
        way_back=f"install {step.source} again",
        source=UNINSTALLER,
        file="",
        sha256=digest(host, UNINSTALLER),
        options=("--quiet",),
    )

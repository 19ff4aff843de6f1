"""What the checks of a smoke run have in common: who broke in a stage, and how that is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.node.smoke import STAGES, SmokeFailure, SmokeRun
from npudoctor.sdk import Because, Evidence, Finding, NotApplicable, Severity, Unavailable

AT_WORK_S = 2.0
"""Whoever was heard of so short a time before is not stuck."""

_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")

TRIED = "what the ranks of `npudoctor smoke` reported"


def judged(run: SmokeRun, stage: str) -> Iterator[Finding]:
    """The findings on the ranks that broke in this stage; raises Unavailable where the run never came so far."""
    if stage not in run.planned:
        raise NotApplicable("not a part of this run")
    broken = run.broken_in
    if broken is None:
        if any(stage not in done for done in run.stages.values()) or len(run.stages) == 0:
            raise Unavailable(f"the run ended before {stage}", because=Because.TIMED_OUT)
        return
    if broken == stage:
        yield from _failures(run, stage)
    elif STAGES.index(broken) < STAGES.index(stage):
        raise Unavailable(f"the run broke in {broken}", blocked_by=f"smoke.{broken}")


def _failures(run: SmokeRun, stage: str) -> Iterator[Finding]:
    blamed = [one for one in run.failures if one.first]
    waited = [one.rank for one in run.failures if not one.first]
    if not blamed:
        one = run.failures[0]
        where = f"{stage}, at {one.doing}" if one.doing else stage
        said = f"{everybody(run)} are stuck in {where}, and none is ahead of the others"
        if one.since_s is not None and one.since_s < AT_WORK_S:
            said = f"the time of {where} was up with {everybody(run)} at work; --deadline {stage}=S gives it more"
        if run.timed_out:
            said = f"the time of the whole run was up in {where}; give it more with --timeout if nothing else is wrong"
        yield _finding(run.failures, said, stage)
        return
    groups: dict[str, list[SmokeFailure]] = {}
    for one in blamed:
        groups.setdefault(_said(one) or (one.cause if one.cause == "no-start" else str(one.rank)), []).append(one)
    for group in groups.values():
        who = _named(group) if len(group) < run.world_size or run.world_size == 1 else everybody(run)
        others = f" ({ranks_text(waited)} only waited)" if waited else ""
        yield _finding(group, f"{who} {_what(group[0], many=len(group) > 1)}{others}", stage)


def everybody(run: SmokeRun) -> str:
    return "both ranks" if run.world_size == 2 else f"all {run.world_size} ranks"


def _named(group: Sequence[SmokeFailure]) -> str:
    names = [f"rank {one.rank}" + (f" on {one.card}" if one.card else "") for one in group]
    return ", ".join(names)


def _said(one: SmokeFailure) -> str:
    """The first line of its complaint, without the numbers that differ from rank to rank."""
    return re.sub(r"\d+", "", (one.message or "").partition("\n")[0])


def ranks_text(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, sorted(ranks)))}"


def _what(one: SmokeFailure, *, many: bool) -> str:
    where = f" in {one.stage}" + (f", at {one.doing}" if one.doing else "")
    if one.cause == "signal":
        return f"was ended by {one.signal}{where}"
    if one.cause == "exit":
        return f"exited{'' if one.exit_code is None else f' with status {one.exit_code}'}{where} without a word"
    if one.cause == "no-start":
        last = f": {_shortened(one.last_line)}" if one.last_line and _ERROR.match(one.last_line) else ""
        return f"ended before {'they' if many else 'it'} could report{where}{last}"
    if one.cause == "hang":
        return f"hangs{where}" + (" (it is stopped)" if one.state == "T" else "")
    if one.cause == "world-size":
        return f"cannot take part: {one.message}"
    return f"failed{where}: {_meaning(one) or _shortened((one.message or 'it does not say why').splitlines()[0])}"


def _meaning(one: SmokeFailure) -> str | None:
    """What the first code of CANN or the driver means; torch_npu's own say no more than which of them was called."""
    for code in one.codes:
        spelled, _, meaning = code.partition(": ")
        if meaning and not spelled.startswith("ERR"):
            return f"{meaning} ({spelled})"
    return None


def _shortened(text: str, limit: int = 120) -> str:
    """The text up to its limit: where it is longer, without places in source and folders of paths, ended at a word."""
    if len(text) > limit:
        text = re.sub(r"(?<![^\s'\"(])/\S{0,300}/", "", re.sub(r"(?<!\S)\S{1,300}\.(?:cpp|h|cc):\d{1,9} ", "", text))
    return text if len(text) <= limit else text[:limit].rpartition(" ")[0].rstrip(" ,;:(") + " …"


def _finding(group: Sequence[SmokeFailure], summary: str, stage: str) -> Finding:
    one = group[0]
    known = [pitfall for id in one.pitfalls if (pitfall := knowledge.pitfalls().pitfall(id)) is not None]
    evidence = [Evidence(source=f"rank {one.rank} in {stage}", expected="to come through", actual=_heard(one))]
    if one.message and one.message not in summary:
        evidence.append(Evidence(source=f"what rank {one.rank} said", actual=one.message.splitlines()[0][:300]))
    if one.last_line and one.last_line not in (one.message or ""):
        evidence.append(Evidence(source=f"last line of the log of rank {one.rank}", actual=one.last_line))
    if one.plog_line:
        evidence.append(Evidence(source=f"last error in CANN's log of rank {one.rank}", actual=one.plog_line))
    if one.stack:
        frames = [line.strip() for line in one.stack.splitlines() if line.strip().startswith("File")]
        evidence.append(Evidence(source=f"stack of rank {one.rank}", actual=" < ".join(frames[:4])))
    if one.codes:
        evidence.append(Evidence(source=f"error codes of rank {one.rank}", actual=", ".join(one.codes)))
    foreseen = list(dict.fromkeys(id for pitfall in known for id in pitfall.foreseen_by))
    foreseen = [id for id in foreseen if not id.startswith("smoke.")]
    commands = (f"npudoctor check {' '.join(foreseen[:3])}",) if foreseen else ()
    return Finding(
        subject=one.card if one.card and len(group) == 1 else "host",
        summary=summary,
        detail=f"{known[0].title}. {known[0].cause}" if known else "; ".join(one.codes) or _more_than(summary, one),
        hint=(known[0].fix[0] if known and known[0].fix else _advice(one)),
        commands=(*commands, "npudoctor smoke --keep-logs ./smoke-logs"),
        evidence=tuple(evidence),
        pitfall=known[0].id if known else None,
    )


def _more_than(summary: str, one: SmokeFailure) -> str | None:
    """Its complaint, where the summary does not hold all of it."""
    return None if (one.message or "") in summary else one.message


def _heard(one: SmokeFailure) -> str:
    since = f"last heard of {one.since_s:g} s before" if one.since_s is not None else "never heard of"
    return f"{one.cause}, {since}"


def _advice(one: SmokeFailure) -> str:
    if "No module named 'torch'" in (one.message or ""):
        return "This Python has no torch: name the one that trains with --python, or activate its environment."
    if one.signal == "SIGKILL":
        return "Somebody or the kernel killed it: look for the out-of-memory killer in `dmesg`, and at cgroup limits."
    if one.signal in ("SIGSEGV", "SIGABRT", "SIGBUS"):
        return "A library crashed: `npudoctor check python cann` looks for versions that do not fit each other."
    if one.cause == "hang":
        return "The stack shows where it stands; the logs that --keep-logs keeps hold what it said before."
    return "The logs that --keep-logs keeps hold the rest, CANN's among them; `npudoctor explain --log` reads them."


def soft(run: SmokeRun) -> Severity:
    """A warning on cards; on the CPU only the machinery is tested."""
    return Severity.WARNING if run.device == "npu" else Severity.INFO


def subject_of(run: SmokeRun, rank: int) -> str:
    return run.cards.get(rank, "host")

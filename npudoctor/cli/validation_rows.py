"""The rows of `npudoctor validate`: what this npudoctor makes of a node's own tools, row by row, and the page of them.

A row is of docs/hardware-validation.md: what was run, what was expected, what was found. `passed` and `differs` are
judged here; `measured` is a figure that a person compares; `not run` says why.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from npudoctor.control_characters import escape
from npudoctor.facts import hccn, npu_smi
from npudoctor.facts.dcmi.answer import LibraryAnswer
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.npu_smi import NpuMap
from npudoctor.facts.parsers import KINDS
from npudoctor.facts.system.pci import PciCards
from npudoctor.findings import Report, Severity
from npudoctor.host import Completed, Host, ParseError, Unavailable
from npudoctor.records import record
from npudoctor.sdk import Probe

PASSED, DIFFERS, MEASURED, NOT_RUN = "passed", "differs", "measured", "not run"
SCHEMA = "npudoctor.validation/1"


@record(frozen=True, kw_only=True)
class Row:
    """One row; `id` is stable, `status` one of passed, differs, measured, not run."""

    id: str
    run: str
    expect: str
    status: str
    actual: str


_FLAGS = {"-l": "npu-smi-list", "-m": "npu-smi-map", "-v": "npu-smi-version"}


def kind_of(key: str) -> str | None:
    """The kind of `npudoctor parse` that reads the output of a recorded command; None where no parser does."""
    words = key.split()
    kind = None
    if words[:1] == ["npu-smi"]:
        if "-t" in words[:-1]:
            kind = f"npu-smi-{words[words.index('-t') + 1]}"
        else:
            kind = next((_FLAGS[word] for word in words if word in _FLAGS), "npu-smi-info")
    elif words[:1] == ["hccn_tool"]:
        queries = [word[1:] for word in words[1:] if re.fullmatch(r"-[a-z_]{2,}", word)]
        kind = f"hccn-{queries[0].replace('_', '-')}" if queries else None
    return kind if kind in KINDS else None


def rows(
    report: Report,
    facts: Mapping[Probe, Any],
    commands: Mapping[str, Completed],
    others: Iterable[Row],
    *,
    smoke: bool,
    timed: Mapping[str, Completed] | None,
) -> tuple[Row, ...]:
    """All rows of one run; `commands` are the recorded answers, `others` the rows that need more than this run.

    `timed` are the answers that the report waited for; None where no tool ran: a recording or a simulated node has the
    times of another run.
    """
    return (
        *_outputs(commands),
        _same_chips(facts),
        _health_row(report),
        _time(report, timed),
        *others,
        _smoke(report, asked=smoke),
    )


def _outputs(commands: Mapping[str, Completed]) -> Iterator[Row]:
    """One row for each kind of output of npu-smi and hccn_tool."""
    kinds: dict[str, list[tuple[str, Completed]]] = {}
    for key, done in commands.items():
        if kind := kind_of(key):
            kinds.setdefault(kind, []).append((key, done))
    for kind, answers in sorted(kinds.items()):
        yield _output(kind, answers)
    if not kinds:
        expect, why = "every output is read", "no vendor tool answered on this node"
        yield Row(id="parse", run="npu-smi, hccn_tool", expect=expect, status=NOT_RUN, actual=why)


def _output(kind: str, answers: Sequence[tuple[str, Completed]]) -> Row:
    refused, bad = 0, []
    for key, done in answers:
        if done.timed_out:
            bad.append(f"`{key}` timed out")
            continue
        try:
            KINDS[kind](done.stdout)
        except ParseError as problem:
            if is_refusal(kind, done.stdout + done.stderr):
                refused += 1
            else:
                bad.append(f"`{key}`: {problem}")
    said = [f"{len(answers) - refused - len(bad)} of {len(answers)} read"]
    said += [f"{refused} refused by the tool"] if refused else []
    said += [f"not read: {bad[0]}" + (f" and {len(bad) - 1} more" if bad[1:] else "")] if bad else []
    return Row(
        id=f"parse.{kind}",
        run=f"`{answers[0][0]}`" + (" and so on" if answers[1:] else ""),
        expect="every output is read",
        status=DIFFERS if bad else NOT_RUN if refused == len(answers) else PASSED,
        actual="; ".join(said),
    )


def is_refusal(kind: str, said: str) -> bool:
    """Whether the tool says that it has no answer to this question."""
    failure = npu_smi.parse_failure if kind.startswith("npu-smi") else hccn.parse_failure
    return failure(said) is not None


def _fact(facts: Mapping[Probe, Any], kind: type) -> Any:
    return next((value for value in facts.values() if isinstance(value, kind)), None)


def _same_chips(facts: Mapping[Probe, Any]) -> Row:
    """The chips of npu-smi's table beside its map, and their PCI addresses beside the bus."""
    chips, numbered, bus = _fact(facts, Chips), _fact(facts, NpuMap), _fact(facts, PciCards)
    rows = [one for one in numbered.rows if one.logic_id is not None or one.phy_id is not None] if numbered else None
    addresses = {one.bus_id.lower() for one in chips.chips if one.bus_id} if chips else None
    pairs = [
        ("chips", "`npu-smi info`", _count(chips and chips.chips), "`npu-smi info -m`", _count(rows)),
        ("PCI addresses", "`npu-smi info`", _count(addresses), "the bus", _count(bus and bus.cards)),
    ]
    actual = "; ".join(f"{what}: {one} {count}, {other} {beside}" for what, one, count, other, beside in pairs)
    judged = [(count, beside) for _, _, count, _, beside in pairs if "unknown" not in (count, beside)]
    status = PASSED if judged else NOT_RUN
    return Row(
        id="chips.same",
        run="the chips of each source",
        expect="the same number",
        status=DIFFERS if any(count != beside for count, beside in judged) else status,
        actual=actual,
    )


def without_library(facts: Mapping[Probe, Any]) -> str | None:
    """Why the driver's library was not read; None where it was."""
    for probe, value in facts.items():
        if probe.provides is LibraryAnswer:
            return None if isinstance(value, LibraryAnswer) else str(value)
    return "unknown"


def source_rows(
    reason: str, library: Report | None = None, tool: Report | None = None, both: Report | None = None
) -> list[Row]:
    """npu-smi beside the driver's library, by a report with each and one that compared their values."""
    rows = (
        ("sources.checks", "`npudoctor check --chips-from dcmi`, and npu-smi", "the same checks with the same status"),
        ("sources.values", "`npudoctor check npu.count --profile full`", "no value differs between the sources"),
        ("sources.time", "`npudoctor check --chips-from dcmi`, and npu-smi", "the library is faster"),
    )
    if library is None or tool is None or both is None:
        return [Row(id=id, run=run, expect=expect, status=NOT_RUN, actual=reason) for id, run, expect in rows]
    ours, theirs = ({one.check: one.status.value for one in report.results} for report in (library, tool))
    differ = [
        f"{name}: {ours.get(name)}, {theirs.get(name)}"
        for name in sorted(ours | theirs)
        if ours.get(name) != theirs.get(name)
    ]
    values = [
        f"{one.source}: {one.actual}, {one.expected}"
        for result in both.results
        for finding in result.findings
        if finding.code == "npu.count/sources-disagree"
        for one in finding.evidence
    ]
    compared = any(result.check == "npu.count" and result.status.value != "skipped" for result in both.results)
    said = (
        (DIFFERS if differ else PASSED, "; ".join(differ) or f"{len(ours)} checks"),
        (
            DIFFERS if values else PASSED if compared else NOT_RUN,
            "; ".join(values) or "none differs" if compared else "npu.count was skipped",
        ),
        (MEASURED, f"library {library.duration_s:.1f} s, npu-smi {tool.duration_s:.1f} s"),
    )
    return [
        Row(id=id, run=run, expect=expect, status=status, actual=actual)
        for (id, run, expect), (status, actual) in zip(rows, said, strict=True)
    ]


_TOOL_FILES = (("/run", r".*_cfg_lock"), ("/var/log", r"nputools_LOG_.*"))


def tool_files(host: Host) -> set[str]:
    """The files that npu-smi and the library leave when they are used."""
    found = set()
    for folder, pattern in _TOOL_FILES:
        with contextlib.suppress(Unavailable):
            found |= {f"{folder}/{name}" for name in host.list_dir(folder) if re.fullmatch(pattern, name)}
    return found


def left_row(before: set[str], after: set[str]) -> Row:
    """The files that are new after the run."""
    return Row(
        id="files.left",
        run="`ls /run/*_cfg_lock /var/log/nputools_LOG_*` before and after",
        expect="what npu-smi writes there as well",
        status=MEASURED,
        actual=", ".join(sorted(after - before)) or "no new file",
    )


def _count(items: Any) -> str:
    return "unknown" if items is None else str(len(items))


def _health_row(report: Report) -> Row:
    counts: dict[str, int] = {}
    for result in report.results:
        for finding in result.findings:
            if finding.severity >= Severity.WARNING:
                counts[f"{finding.severity.value} {result.check}"] = 1
    found = ", ".join(sorted(counts)) or "no finding at warning or above"
    return Row(
        id="check.healthy",
        run=f"`npudoctor check --profile {report.profile}`",
        expect="exit 0 without a warning, on a node that is healthy and idle",
        status=PASSED if not counts and report.exit_code == 0 else MEASURED,
        actual=f"exit {report.exit_code}: {found}; {'in service' if report.in_service else 'idle'}",
    )


def _time(report: Report, timed: Mapping[str, Completed] | None) -> Row:
    slowest = sorted((timed or {}).items(), key=lambda row: -row[1].seconds)[:1]
    tail = "".join(f"; slowest: `{key}` {done.seconds:.1f} s" for key, done in slowest)
    return Row(
        id="check.time",
        run="the time of the run beside that of each tool",
        expect="the tools' own time, and at most half a second more",
        status=NOT_RUN if timed is None else MEASURED,
        actual="only on the node itself" if timed is None else f"{report.duration_s:.1f} s{tail}",
    )


def _smoke(report: Report, *, asked: bool) -> Row:
    results = [result for result in report.results if result.check.startswith("smoke.")]
    bad = [result.check for result in results if result.status.value in ("error", "warning")]
    done = [result for result in results if result.status.value == "ok"]
    if not asked:
        status, actual = NOT_RUN, "it uses the NPUs; --smoke allows it"
    elif bad or done:
        status, actual = DIFFERS if bad else PASSED, ", ".join(bad) or f"{len(done)} stages ok"
    else:
        status, actual = NOT_RUN, next((str(one.reason) for one in results if one.reason), "no smoke run")
    return Row(id="smoke", run="`npudoctor smoke`", expect="exit 0 on idle NPUs", status=status, actual=actual)


def opened_row(done: Completed | None, reason: str = "") -> Row:
    """The row of the device nodes, from what strace printed of a check; None where it could not run."""
    run, expect = "`strace npudoctor check`", "no /dev/davinciN is opened"
    if done is None:
        return Row(id="devices.opened", run=run, expect=expect, status=NOT_RUN, actual=reason)
    lines = [line for line in done.stderr.splitlines() if "/dev/davinci" in line and "open" in line]
    actual = f"opened: {lines[0].strip()[:200]}" if lines else "none was opened"
    return Row(id="devices.opened", run=run, expect=expect, status=DIFFERS if lines else PASSED, actual=actual)


def timings(commands: Mapping[str, Completed]) -> list[dict[str, Any]]:
    """Calls, sum and maximum in seconds for each tool and kind of question, slowest first."""
    found: dict[str, list[float]] = {}
    for key, done in commands.items():
        name = re.sub(r" -([ic]) [0-9]+", r" -\1 N", key)
        found.setdefault(name, []).append(done.seconds)
    table = [
        {"command": name, "calls": len(each), "sum_s": round(sum(each), 3), "max_s": round(max(each), 3)}
        for name, each in found.items()
    ]
    return sorted(table, key=lambda row: (-row["max_s"], row["command"]))


def page(report: Report, found: Sequence[Row], times: Iterable[Mapping[str, Any]], review: Sequence[str]) -> str:
    """The page in front of the archive, in Markdown."""
    counts = {status: sum(row.status == status for row in found) for status in (PASSED, DIFFERS, MEASURED, NOT_RUN)}
    lines = [
        "# Validation of npudoctor on this node",
        "",
        f"npudoctor {report.tool_version}, {report.started_at}. Names, addresses and serial numbers are pseudonyms.",
        ", ".join(f"{count} {status}" for status, count in counts.items()) + ".",
        "",
        "| row | run | expected | result | found |",
        "| --- | --- | --- | --- | --- |",
        *(_cells(row.id, row.run, row.expect, row.status, row.actual) for row in found),
        "",
        "## Time of each tool",
        "",
        "| command | calls | sum, s | longest, s |",
        "| --- | --- | --- | --- |",
        *(_cells(row["command"], row["calls"], row["sum_s"], row["max_s"]) for row in times),
        "",
        "## Review before sending",
        "",
        "No program removes reliably what free text says. Read these files of this archive:",
        "",
        *(f"- {line}" for line in review),
        "",
        "The other files are the recording: `npudoctor check --replay` reads this archive.",
        "",
    ]
    return "\n".join(lines)


def _cells(*cells: object) -> str:
    texts = (escape(str(cell).replace("\n", " ")).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |"

"""From a log to its cause: each log names the pitfall that it shows, and who failed first."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor import knowledge
from npudoctor.explain.diagnosis import Diagnosis, diagnose
from npudoctor.explain.patterns import Kind, Sought
from npudoctor.explain.scan import Scanner

SOUGHT = Sought()
LOGS = Path(__file__).parent / "data" / "logs"
OOM = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 60.96 GiB total capacity)"
NOTIFY = "EI0002: [PID: {pid}] {time} The wait execution of the Notify register times out."
LINK = "EI0006: [PID: {pid}] {time} Getting socket times out. Reason: Remote Rank did not send the data in time."
BOUND = (
    "EJ0003: [PID: {pid}] {time} Failed to bind the IP port. Reason: The IP address and port have been bound already."
)


def diagnosed(*texts: str, names: tuple[str, ...] = ()) -> Diagnosis:
    scanner = Scanner(SOUGHT)
    for number, text in enumerate(texts):
        scanner.read(names[number] if names else f"file-{number}", [text.encode()])
    return diagnose(scanner)


def named(diagnosis: Diagnosis) -> list[str]:
    return [suspect.pitfall.id for suspect in diagnosis.suspects]


@pytest.mark.parametrize("path", sorted(LOGS.glob("P*.txt")), ids=lambda path: path.stem)
def test_a_log_names_first_what_it_shows(path: Path) -> None:
    diagnosis = diagnosed(path.read_bytes().decode())
    assert named(diagnosis)[0] == path.name[:4]


@pytest.mark.parametrize("path", sorted(LOGS.glob("nothing*.txt")), ids=lambda path: path.stem)
def test_a_log_of_a_healthy_job_names_nothing(path: Path) -> None:
    diagnosis = diagnosed(path.read_text(encoding="utf-8"))
    assert not diagnosis.knows, (named(diagnosis), diagnosis.codes)


def test_every_recorded_failure_names_first_one_of_the_pitfalls_that_its_cause_is(shared: Path) -> None:
    index = json.loads((shared / "captures" / "index.json").read_text(encoding="utf-8"))
    causes = json.loads((shared / "captures" / "causes.json").read_text(encoding="utf-8"))
    wrong, seen = [], 0
    for entry in index:
        if entry["kind"].startswith("log-") or entry["kind"] in ("npu-smi-error", "hccn-error"):
            diagnosis = diagnosed((shared / "captures" / entry["path"]).read_text(encoding="utf-8"))
            wanted = causes[entry["expect"]["cause"]]
            seen += 1
            if named(diagnosis)[:1] not in ([[id] for id in wanted] or [[]]) or not diagnosis.knows:
                wrong.append((entry["path"], wanted, named(diagnosis)))
            found = {code.spelled for code in diagnosis.codes}
            codes = {str(entry["expect"][key]) for key in ("error_code", "acl_code", "ret") if entry["expect"].get(key)}
            assert codes <= found, entry["path"]
    assert not wrong
    assert seen >= 20


def test_the_first_of_several_files_by_the_time_stamps_though_it_is_read_last() -> None:
    names = tuple(str(path) for path in sorted((LOGS / "four-ranks").glob("*.log")))
    diagnosis = diagnosed(*(Path(name).read_text(encoding="utf-8") for name in names), names=names)
    first = diagnosis.first_failure
    assert first is not None
    assert (first.who, first.by, first.of) == ("rank 3", "time", 4)
    assert first.sighting.found.what == "P017"
    assert named(diagnosis) == ["P017", "P019"]


def test_a_cause_on_one_rank_goes_before_the_time_outs_of_the_others_even_without_time_stamps() -> None:
    waiting = "".join(f"[rank{rank}]: The wait execution of the Notify register times out.\n" for rank in (0, 1, 2))
    diagnosis = diagnosed(waiting + f"[rank3]: {OOM}\n")
    first = diagnosis.first_failure
    assert first and (first.who, first.by) == ("rank 3", "cause")
    assert named(diagnosis)[0] == "P017"


def test_what_happens_after_the_time_outs_is_not_their_cause() -> None:
    early = NOTIFY.format(pid=1, time="2025-01-01-10:00:00.000.000")
    late = BOUND.format(pid=2, time="2025-01-01-10:09:00.000.000")
    diagnosis = diagnosed(f"{early}\n{late}\n")
    assert named(diagnosis)[0] == "P019"
    assert diagnosis.first_failure and diagnosis.first_failure.who == "process 1"


def test_a_port_that_is_taken_goes_before_the_links_that_wait_for_it() -> None:
    bound = BOUND.format(pid=1, time="2025-01-01-10:00:00.000.000")
    links = "\n".join(LINK.format(pid=pid, time=f"2025-01-01-10:02:2{pid}.000.000") for pid in (2, 3, 4))
    for text in (f"{bound}\n{links}\n", f"{links}\n{bound}\n"):
        diagnosis = diagnosed(text)
        assert named(diagnosis)[0] == "P003"
        assert "P005" in named(diagnosis)[1:]
        assert diagnosis.first_failure and diagnosis.first_failure.who == "process 1"


def test_an_exception_that_nothing_explains_is_named_where_the_others_only_wait() -> None:
    text = (
        "2025-01-01 10:00:00,000 ERROR [rank5]: KeyError: 'labels'\n"
        "[rank5]: KeyError: 'labels'\n" + NOTIFY.format(pid=1, time="2025-01-01-10:30:00.000.000") + "\n"
    )
    diagnosis = diagnosed(text)
    assert diagnosis.unexplained and diagnosis.unexplained.found.what == "KeyError: 'labels'"
    assert diagnosis.first_failure and diagnosis.first_failure.who == "rank 5"
    assert named(diagnosis) == [] and [one.pitfall.id for one in diagnosis.notices] == ["P019"]


def test_torchrun_s_own_word_counts_where_time_stamps_do_not_tell() -> None:
    text = (
        f"[rank2]: {OOM}\n[rank1]: {OOM}\n"
        "Root Cause (first observed failure):\n[0]:\n  time      : yesterday\n  rank      : 1 (local_rank: 1)\n"
    )
    first = diagnosed(text).first_failure
    assert first and (first.who, first.by) == ("rank 1", "launcher")


def test_processes_are_called_by_their_rank_once_a_line_tells_it() -> None:
    text = (
        "[ERROR] 2025-01-01-10:00:05 (PID:77, Device:4, RankID:12) ERR02200 DIST call hccl api failed.\n"
        + NOTIFY.format(pid=77, time="2025-01-01-10:00:04.000.000")
        + "\n"
        + NOTIFY.format(pid=78, time="2025-01-01-10:00:09.000.000")
        + "\n"
    )
    first = diagnosed(text).first_failure
    assert first and (first.who, first.of) == ("rank 12", 2)


def test_years_that_some_lines_leave_out_do_not_confuse() -> None:
    text = (
        f"(Worker rank=0 pid=1) ERROR 03-02 10:00:01 [x.py:1] {OOM}\n"
        "[rank1]: [PID: 2] 2026-03-02-10:30:00.000.000 Notify_Wait_Timeout(EI0002): The wait execution of the Notify "
        "register times out\n"
    )
    first = diagnosed(text).first_failure
    assert first and (first.who, first.by) == ("rank 0", "time")


def test_what_a_message_advises_is_no_symptom() -> None:
    text = (
        "EI0006: Getting socket times out. Reason: 1. The remote does not initiate. 2. Failed to bind the IP port. "
        "Solution: see whether NPU out of memory.\n"
    )
    assert named(diagnosed(text))[0] == "P005"


def test_an_early_line_of_information_does_not_outweigh_an_error() -> None:
    text = "INFO 03-02 10:00:01 [x.py:1] caught: Failed to bind the IP port, trying another\n[ERROR] " + OOM + "\n"
    assert named(diagnosed(text))[0] == "P017"


def test_the_log_s_own_culprit_is_passed_on() -> None:
    diagnosis = diagnosed((LOGS / "P019-one-rank-hangs.txt").read_text(encoding="utf-8"))
    assert [one.found.what for one in diagnosis.blamed] == ["10.0.0.9/3"]


def test_unknown_codes_of_known_families_are_listed() -> None:
    diagnosis = diagnosed("EI0098: [PID: 1] something new\n")
    assert [(seen.spelled, seen.code, seen.family) for seen in diagnosis.codes] == [("EI0098", None, "HCCL")]
    assert not diagnosis.knows


@pytest.mark.thorough
def test_every_code_of_the_tables_is_recognised_in_a_log() -> None:
    unseen = []
    for row in knowledge.errors().codes:
        if row.kind in ("hccl", "cann", "torch_npu"):
            line = f"{row.code}: [PID: 1] 2025-01-01-10:00:00.000.000 text"
        elif row.kind == "hccl-return":
            line = f"HCCL function error: HcclAllReduce, error code is {row.code.split()[1]}"
        elif row.kind == "acl":
            line = f"RuntimeError: NPU function error: call, error code is {row.code}"
        elif row.kind == "chip":
            line = f"Error Code : 0x{row.code}"
        elif row.kind == "dcmi":
            line = f"something failed. ret is {row.code}"
        else:
            continue
        if row.code not in {seen.spelled for seen in diagnosed(line + "\n").codes}:
            unseen.append(row.code)
    assert not unseen


@pytest.mark.thorough
@given(st.lists(st.sampled_from([OOM, NOTIFY, LINK, BOUND, "", "step 1"]), max_size=8), st.randoms())
def test_a_consequence_never_goes_before_its_cause_when_no_line_says_when(lines: list[str], random: object) -> None:
    text = "".join(line.format(pid=1, time="") + "\n" for line in lines)
    found = named(diagnosed(text))
    assert not ({"P017", "P003"} & set(found)) or found[0] in ("P017", "P003")


def test_a_consequence_says_so_and_refinements_lead_somewhere() -> None:
    table = knowledge.pitfalls()
    assert {"P005", "P019", "P064"} <= {pitfall.id for pitfall in table.rows if pitfall.consequence}
    for pitfall in table.rows:
        assert all(map(table.pitfall, pitfall.refines)), pitfall.id
        assert pitfall.id not in pitfall.refines
        assert not set(pitfall.symptoms) & set(pitfall.hints), pitfall.id


def test_the_kinds_of_what_is_found_are_spelled_as_the_documents_spell_them() -> None:
    kinds = ["symptom", "hint", "code", "message", "exception", "memory", "limit", "blame", "root-cause"]
    kinds += ["stop", "ending"]
    assert [kind.value for kind in Kind] == kinds

"""`npudoctor report` and `record --case`: one page to send, without names and serial numbers unless asked for."""

import contextlib
import os
import sqlite3
import tarfile
from pathlib import Path

import pytest

from npudoctor import clock, inventory
from npudoctor.cli import case_page, report
from npudoctor.daemon.store import Store
from npudoctor.facts.system.machine import machine
from npudoctor.findings import Inventory, Report, Verdict
from npudoctor.host import Unavailable
from npudoctor.host.live.local import LocalHost
from npudoctor.models import adapter
from npudoctor.report import case, markup
from npudoctor.report.inventory import rows
from npudoctor.testing import FakeHost
from tests.plain_user import ALICE, as_root
from tests.security.test_masking import leaks, lines_with_credentials
from tests.security.test_names_in_logs import TOLD

from .conftest import Command

SERIAL = "1023C3"
"""How the serial numbers of the simulated boards begin."""


def test_the_report_has_the_inventory(npudoctor: Command) -> None:
    found_report = adapter(Report).validate_python(npudoctor("check", "--json", "--simulate", "healthy-a3").json)
    found = found_report.inventory
    assert found is not None
    assert (found.driver, found.cann, found.torch, found.torch_npu) == ("25.5.0", "8.5.0", "2.8.0", "2.8.0.post2")
    assert [len(npu.chips) for npu in found.npus] == [2] * 8
    assert len({npu.serial_number for npu in found.npus}) == 8
    assert found.product and found.kernel and found.bios
    names = [name for name, _ in rows(found)]
    assert names[:2] == ["product", "BIOS"] and names[-1] == "npu:7"


@pytest.mark.parametrize("shape", ["markdown", "html"])
def test_markdown_and_html_have_it_too(npudoctor: Command, shape: str) -> None:
    out = npudoctor("check", "--format", shape, "--simulate", "seed-910b1").out
    assert "Inventory" in out and SERIAL in out


def test_what_is_not_known_is_left_out() -> None:
    assert inventory.of({}) == Inventory()
    assert rows(Inventory()) == [] and rows(None) == []


def test_a_page_is_short_and_has_no_serial_number(npudoctor: Command) -> None:
    ran = npudoctor("report", "--simulate", "sick-cards")
    assert ran.code == 0
    assert len(ran.out) < 20_000
    assert ran.out.startswith("# npudoctor: NPU 5 (0000:02:00.0) is listed by npu-smi")
    for part in ("`npu.health`", "## Inventory", "<summary>npu-smi info</summary>", "are pseudonyms"):
        assert part in ran.out
    assert SERIAL not in ran.out and "sick-node" not in ran.out
    assert "5.10.0-216.0.0.115.oe2203sp4.aarch64" in ran.out  # four numbers of a kernel release are no address


def test_the_vendor_gets_names_and_serial_numbers(npudoctor: Command) -> None:
    ran = npudoctor("report", "--no-redact", "--simulate", "sick-cards")
    assert ran.out.count(SERIAL) == 8 and "sick-node" in ran.out
    assert "pseudonyms" not in ran.out


def test_a_page_is_written_as_html_with_an_explained_log(npudoctor: Command, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "ERROR EI0006: getting socket times out, remote 10.23.45.67\n<script>alert(1)</script>\n", encoding="utf-8"
    )
    target = tmp_path / "report.html"
    ran = npudoctor("report", "--simulate", "new-node", "--html", str(target), "--log", str(log))
    assert (ran.code, ran.out) == (0, "")
    page = target.read_text(encoding="utf-8")
    assert page.endswith("</body></html>\n") and "EI0006" in page and "<h2>Log</h2>" in page
    assert "<script>" not in page and "10.23.45.67" not in page


def test_a_page_that_cannot_be_written_is_refused_in_one_line(npudoctor: Command, tmp_path: Path) -> None:
    ran = npudoctor("report", "--simulate", "bare-host", "--html", str(tmp_path / "no" / "report.html"))
    assert (ran.code, ran.err.count("\n")) == (2, 1)


def test_the_events_of_the_daemon_are_its_timeline(npudoctor: Command, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "history.sqlite"), kept_days=30)
    store.note("started", "the daemon started")
    store.close()
    ran = npudoctor("report", "--simulate", "healthy-a3", "--state", str(tmp_path))
    assert "## Timeline" in ran.out and "started: the daemon started" in ran.out


def test_a_file_that_is_no_history_is_no_timeline(npudoctor: Command, tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").write_bytes(b"no database")
    with pytest.raises(sqlite3.Error):
        sqlite3.connect(tmp_path / "history.sqlite").execute("SELECT * FROM changes")
    ran = npudoctor("report", "--simulate", "healthy-a3", "--state", str(tmp_path))
    assert ran.code == 0 and "history.sqlite is no readable history of a daemon: file is not a database" in ran.out


def test_a_hostile_history_ends_and_shows_no_markup(npudoctor: Command, tmp_path: Path) -> None:
    """Somebody else's file: a view that never ends, values of other kinds, endless texts, Markdown in them."""
    endless = sqlite3.connect(tmp_path / "history.sqlite")
    endless.execute(
        "CREATE VIEW changes AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
        "SELECT id, 'a' AS at, 'k' AS kind, 'c' AS check_id, 's' AS subject, 't' AS said FROM n"
    )
    endless.close()
    assert "changes is no table" in "".join(report.timeline(str(tmp_path)))
    (tmp_path / "history.sqlite").unlink()
    rows = [
        (1e300, "k", "c.d", "host", "x"),
        ("noon", "k", "c.d", "host", "x"),
        (0.0, b"\xff", 7, None, "x" * 1_000_000),
        (0.0, "k", "c.d", "host", "![x](http://h/?) <b> @all\n# head"),
    ]
    with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as store, store:
        store.execute("CREATE TABLE changes (id INTEGER PRIMARY KEY, at, kind, check_id, subject, said)")
        store.execute("CREATE TABLE samples (at, chip, aicore, hbm, temp, power, ecc)")
        now = clock.timestamp()
        odd = ("9e999", "-9e999", "1e300", "'hot'", "x'ff'")
        store.execute(f"INSERT INTO samples VALUES ({now}, 'npu:0', {', '.join(odd)})")
        store.execute(f"INSERT INTO samples VALUES (9e999, 'npu:0', 1, 2, 3, 4, 5), ({now}, 'npu:0', 1, 2, 3, 4, 5)")
        store.executemany("INSERT INTO changes (at, kind, check_id, subject, said) VALUES (?, ?, ?, ?, ?)", rows)
    found = list(report.timeline(str(tmp_path)))
    assert report.series(str(tmp_path))[1:] == [("npu:0", "1–1", "2–2", "3–3", "4–4", "5–5")]
    assert len(found) == 2 and all(len(one) < 1000 for one in found)
    page = npudoctor("report", "--simulate", "healthy-a3", "--state", str(tmp_path)).out
    assert "\\!\\[x\\](http" in page and "&lt;b>" in page and "@all" not in page


def test_a_history_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "history.sqlite")
    assert list(report.timeline(str(tmp_path))) == []


def test_only_an_earlier_page_is_replaced_without_force(npudoctor: Command, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    words = ("report", "--simulate", "bare-host", "--html", str(target))
    assert npudoctor(*words).code == 0 and npudoctor(*words).code == 0
    target.write_text("mine", encoding="utf-8")
    ran = npudoctor(*words)
    assert (ran.code, ran.err.count("\n"), target.read_text(encoding="utf-8")) == (2, 1, "mine")
    assert npudoctor(*words, "--force").code == 0 and "npudoctor" in target.read_text(encoding="utf-8")


def test_a_log_tells_no_user_address_or_host(npudoctor: Command, tmp_path: Path) -> None:
    told = (
        *("10.23.45.67", "3c:7d:0a:12:34:56", "fe80::3e7d:aff:fe12:3456", "2001:db8:77::5"),
        *("mallory", "trudy", "bigiron.corp", "oscar", "peggy"),
    )
    log = tmp_path / "train.log"
    log.write_text(
        "EI0006: getting socket times out, remote 10.23.45.67 3c:7d:0a:12:34:56 fe80::3e7d:aff:fe12:3456 "
        "2001:db8:77::5 "
        'trudy@bigiron.corp uid=1003(oscar) USER=peggy File "/home/mallory/train.py"\n',
        encoding="utf-8",
    )
    page = npudoctor("report", "--simulate", "new-node", "--log", str(log)).out
    assert "EI0006" in page and "user-1" in page
    assert [one for one in told if one in page] == []
    page = npudoctor("report", "--no-redact", "--simulate", "new-node", "--log", str(log)).out
    assert "peggy" in page


@pytest.mark.parametrize("option", [[], ["--no-redact"]])
@pytest.mark.parametrize("shape", [[], ["--html"]])
def test_a_report_with_a_log_has_no_credential_of_it(
    npudoctor: Command, tmp_path: Path, shape: list[str], option: list[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines_with_credentials()), encoding="utf-8")
    target = tmp_path / "page.html"
    words = ("report", "--simulate", "new-node", *option, *shape, *([str(target)] if shape else []))
    ran = npudoctor(*words, "--log", str(log))
    page = target.read_text(encoding="utf-8") if shape else ran.out
    assert "EI0006" in page and "***" in page
    assert leaks(page) == []


def test_a_toolkit_that_is_not_sourced_is_in_the_inventory(npudoctor: Command) -> None:
    assert npudoctor("check", "--json", "--simulate", "new-node").json["inventory"]["cann"] == "8.2.RC1"
    assert "| CANN | 8.2.RC1 |" in npudoctor("report", "--simulate", "new-node").out


@pytest.mark.parametrize("shape", [[], ["--html"]])
def test_a_report_with_a_log_has_no_name_of_it(npudoctor: Command, tmp_path: Path, shape: list[str]) -> None:
    lines = [f"[rank{number}] EI0006: Getting socket times out. {line}" for number, line in enumerate(TOLD)]
    long = "the peer did not answer within the time and " * 5
    lines += [
        f"[ERROR] EI0006: Getting socket times out. {long[:cut]} host(name)=cutname{cut}" for cut in (60, 61, 150, 151)
    ]
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines), encoding="utf-8")
    target = tmp_path / "page.html"
    ran = npudoctor("report", "--simulate", "new-node", *shape, *([str(target)] if shape else []), "--log", str(log))
    page = target.read_text(encoding="utf-8") if shape else ran.out
    assert "EI0006" in page
    assert [name for name in (*TOLD.values(), "cutname") if name in page] == []


def test_what_a_log_names_like_a_word_of_the_report_leaves_the_report_readable(npudoctor: Command) -> None:
    document = npudoctor("check", "--simulate", "new-node", "--json").json
    made = case.Case(
        report=adapter(Report).validate_python(document), timeline=("host=error", "host=ok", "host=checked")
    )
    shown = report.whole(made, None, {}, redacted=True)
    assert shown.report.verdict is Verdict.ERROR
    assert case.markdown(shown)


@pytest.mark.parametrize("redact", [True, False])
def test_a_case_begins_with_the_page_and_can_be_replayed(npudoctor: Command, tmp_path: Path, redact: bool) -> None:
    target = tmp_path / "case.tar.gz"
    options = ["--redact"] if redact else []
    ran = npudoctor("record", "--case", *options, "--simulate", "sick-cards", str(target))
    assert ran.code == 0
    assert ("Serial numbers, names and addresses are kept" in ran.err) is not redact
    with tarfile.open(target) as archive:
        names = [name.partition("/")[2] for name in archive.getnames() if name.endswith(".txt")]
        page = archive.extractfile("node/REPORT.txt")
        assert names == ["INDEX.txt", "REPORT.txt"] and page is not None
        assert (SERIAL in page.read().decode()) is not redact
    assert npudoctor("check", "-q", "--replay", str(target)).code == 1


@pytest.fixture
def msnpureport(monkeypatch: pytest.MonkeyPatch, open_folder: Path) -> Path:
    """A tool on PATH that writes a log where it is started."""
    tool = open_folder / "msnpureport"
    tool.write_text("#!/bin/sh\necho log >device-0.log\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{open_folder}:{os.environ['PATH']}")
    monkeypatch.setattr(case_page, "TOOLS", ())
    monkeypatch.setattr(case_page, "NEEDED_BYTES", 0)
    return tool


def test_device_logs_are_offered_and_exported_by_consent(msnpureport: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "a case.tar.gz")
    offer = case_page.device_logs(LocalHost(), place, wanted=False)
    assert "--device-logs" in offer and f"timeout 600 {msnpureport}" in offer
    assert list(tmp_path.iterdir()) == []
    said = case_page.device_logs(LocalHost(), place, wanted=True)
    folder = tmp_path / "a case-device-logs"
    assert str(folder) in said and (folder / "device-0.log").read_text(encoding="utf-8") == "log\n"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "File exists" in case_page.device_logs(LocalHost(), place, wanted=True), "an earlier export is not mixed"


def test_device_logs_need_room_end_in_time_and_tell_a_failure(
    msnpureport: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    msnpureport.write_text("#!/bin/sh\necho no device >&2; exit 3\n", encoding="utf-8")
    said = case_page.device_logs(LocalHost(), str(tmp_path / "failed.tar.gz"), wanted=True)
    assert "ended with 3: no device" in said
    msnpureport.write_text("#!/bin/sh\nexec sleep 1000\n", encoding="utf-8")
    monkeypatch.setattr(case_page, "LIMIT_S", 1)
    assert "did not end within 1 s" in case_page.device_logs(LocalHost(), str(tmp_path / "slow"), wanted=True)
    monkeypatch.setattr(case_page, "NEEDED_BYTES", 1 << 80)
    assert "free space" in case_page.device_logs(LocalHost(), str(tmp_path / "full"), wanted=True)
    assert not (tmp_path / "full-device-logs").exists()


@as_root
def test_root_runs_no_tool_of_a_user_and_exports_into_no_folder_of_one(
    msnpureport: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = open_folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, ALICE, ALICE)
    said = case_page.device_logs(LocalHost(), str(theirs / "case.tar.gz"), wanted=True)
    assert "only root can change" in said and list(theirs.iterdir()) == []
    os.chown(msnpureport, ALICE, ALICE)
    monkeypatch.setattr(case_page, "TOOLS", (str(msnpureport),))
    said = case_page.device_logs(LocalHost(), str(open_folder / "case.tar.gz"), wanted=True)
    assert "root does not run" in said and not (open_folder / "case-device-logs").exists()


def test_device_logs_are_of_this_node_alone(npudoctor: Command, tmp_path: Path) -> None:
    for words in (("--case", "--simulate", "sick-cards"), ()):
        ran = npudoctor("record", "--device-logs", *words, str(tmp_path / "case.tar.gz"))
        assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert case_page.device_logs(FakeHost(), str(tmp_path / "case"), wanted=False) == ""


def test_the_server_tells_its_model_and_versions() -> None:
    folder = "/sys/class/dmi/id"
    files = {f"{folder}/sys_vendor": "Huawei\n", f"{folder}/bios_version": "6.57\n", f"{folder}/product_name": "N/A\n"}
    found = machine.function(FakeHost(files=files))
    assert (found.vendor, found.product, found.bios, found.bmc) == ("Huawei", None, "6.57", None)
    with pytest.raises(Unavailable, match="says nothing about this machine"):
        machine.function(FakeHost(files={}))


def test_a_version_is_no_numbered_item() -> None:
    assert [markup.prose(one) for one in ("25.2.0", "1. one", "2)")] == ["25.2.0", "1\\. one", "2\\)"]

"""The one line of a node: small, complete, told apart from noise, and never trusted."""

import base64
import gzip
import hashlib
import json
from pathlib import Path

import pytest

from npudoctor.cli import main
from npudoctor.compare.features import feature_of
from npudoctor.fleet import line
from npudoctor.fleet.describe import FEW_PACKAGES, compact
from npudoctor.fleet.digest import Digest
from npudoctor.records import replace

SCENARIOS = ("seed-910b1", "sick-cards", "in-service", "healthy-a3", "bare-host")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["node", *words])
    return code, capsys.readouterr().out


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_line_holds_the_report_within_8_kb(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = printed(capsys, "--line", "--simulate", scenario, "--name", "n0001")
    assert output.count("\n") == 1
    raw = line.find(output)
    assert raw is not None and len(raw) <= 8 << 10
    digest = line.read(raw)
    assert (digest.name, digest.exit_code) == ("n0001", code)
    assert digest.report.exit_code == code
    assert len(digest.clock.readings) == 3


def test_a_node_in_service_is_checked_by_the_quick_profile(capsys: pytest.CaptureFixture[str]) -> None:
    profiles = []
    for words in ([], ["--profile", "standard"], ["--expect-idle"]):
        raw = line.find(printed(capsys, "--line", "--simulate", "in-service", *words)[1])
        assert raw is not None
        profiles.append(line.read(raw).report.profile)
    assert profiles == ["quick", "standard", "standard"]


def test_the_line_is_found_in_what_a_login_prints(capsys: pytest.CaptureFixture[str]) -> None:
    one = printed(capsys, "--line", "--simulate", "bare-host")[1]
    assert line.find(f"Welcome!\r\n** {line.MARK} is noise\nprompt> {one.strip()}\r\nlogout\n") == line.find(one)
    assert line.find("Welcome!\n") is None


@pytest.mark.parametrize("change", ["half", "flipped", "mark alone"])
def test_a_changed_line_is_refused(change: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = printed(capsys, "--line", "--simulate", "bare-host")[1].strip()
    damaged = {
        "half": one[: len(one) // 2],
        "flipped": one[:-9] + ("A" if one[-9] != "A" else "B") + one[-8:],
        "mark alone": line.MARK,
    }[change]
    with pytest.raises(line.Garbled):
        line.find(damaged)


def hostile() -> dict[str, bytes]:
    deep = b'{"schema":"npudoctor.node/1","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return {
        "not JSON": b"\x1f\x8b broken",
        "bomb": gzip.compress(b" " * (line.MOST_TEXT + 1)),
        "deep": gzip.compress(deep),
        "many values": gzip.compress(b"[" + b"1," * line.MOST_VALUES + b"1]"),
        "large": b"x" * (line.MOST_BYTES + 1),
        "other schema": b'{"schema":"npudoctor.node/2"}',
        "no object": b"[]",
        "wrong type": json.dumps({"schema": "npudoctor.node/1", "name": ["a"]}).encode(),
        "cut off": gzip.compress(b'{"schema":"npudoctor.node/1"}')[:-9],
    }


@pytest.mark.parametrize("name", hostile())
def test_an_answer_that_is_no_digest_is_refused(name: str) -> None:
    with pytest.raises(line.Garbled):
        line.read(hostile()[name])


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("clock.readings", [[float("nan"), 1]], "not JSON"),
        ("exit_code", 10**50, "not JSON"),
        ("identity.hostname", "\ud800", "not JSON"),
        ("exit_code", "0", 'exit_code: expected a whole number, found "0"'),
        ("identity.npus", {"a": {}}, 'identity: npus: a: expected a whole number, found "a"'),
        ("features", [["a", "b", "text"]], "features: expected rows of a source, a title and a list of texts"),
        ("features", [["a", "b", ["c", 1]]], "features: expected rows of a source, a title and a list of texts"),
        ("features", [["a", "b"]], "features: expected rows of a source, a title and a list of texts"),
        ("report.results", [1], "report: results[0]: expected an object, found 1"),
        ("report.results", [{"check": "a", "title": "b", "status": "good", "findings": [1]}], None),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_value_that_does_not_fit_is_named(
    path: str, value: object, reason: str | None, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.loads(printed(capsys, "--simulate", "bare-host")[1])
    *above, last = path.split(".")
    place = said
    for name in above:
        place = place[name]
    place[last] = value
    with pytest.raises(line.Garbled) as problem:
        line.read(json.dumps(said).encode(), whole=whole)
    assert str(problem.value) == reason or (reason is None and "status" in str(problem.value))


def test_a_merge_reads_what_has_something_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    raw = printed(capsys, "--simulate", "sick-cards")[1].encode()
    whole, part = line.read(raw), line.read(raw, whole=False)
    told = tuple(result for result in whole.report.results if result.findings)
    assert 0 < len(told) < len(whole.report.results)
    assert part == replace(whole, report=replace(whole.report, results=told))
    said = json.loads(raw)
    result = next(one for one in said["report"]["results"] if one.get("findings"))
    result["silenced"] = {"reason": "known", "until": "2027-01-31"}
    silenced = line.read(json.dumps(said).encode()).report.results
    assert [str(one.silenced) for one in silenced if one.silenced] == ["silenced until 2027-01-31: known"]


def test_unknown_fields_are_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(printed(capsys, "--simulate", "bare-host")[1])
    said["later"] = {"a": 1}
    said["identity"]["later"] = [1]
    said["report"]["later"] = "x"
    assert isinstance(line.read(json.dumps(said).encode()), Digest)


def test_a_line_of_something_else_with_a_good_checksum_is_refused() -> None:
    body = base64.b64encode(b"hello").decode()
    raw = line.find(f"{line.MARK} {hashlib.sha256(body.encode()).hexdigest()} {body}")
    assert raw == b"hello"
    with pytest.raises(line.Garbled):
        line.read(raw)


def test_it_is_dropped_into_a_folder_under_a_safe_name(tmp_path: Path) -> None:
    code = main(["node", "--simulate", "bare-host", "--name", "../a b", "--to", str(tmp_path)])
    assert code in (0, 1, 3)
    (file,) = tmp_path.iterdir()
    assert file.name == "%2E.%2Fa%20b.json.gz"
    assert line.read(file.read_bytes()).name == "../a b"


def test_a_folder_that_is_missing_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--simulate", "bare-host", "--to", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_long_values_and_many_packages_become_checksums() -> None:
    packages = {feature_of("python.python_environment", f"package p{n}"): (str(n),) for n in range(FEW_PACKAGES)}
    torch = feature_of("python.python_environment", "package torch")
    long = feature_of("a.b", "a.b: paths")
    told = {**packages, torch: ("2.6.0",), long: ("x" * 100, "y" * 100)}
    found = compact(told)
    assert found[torch] == ("2.6.0",)
    assert found[long][0].startswith("2 values, checksum ")
    assert len(found) == 3
    other = compact({**told, next(iter(packages)): ("new",)})
    changed = [one for one in found if found[one] != other[one]]
    assert [one.title for one in changed] == ["package set"]

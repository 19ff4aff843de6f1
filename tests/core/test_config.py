"""The site's configuration: what is right is taken, what is wrong is named with file, key and what was expected."""

import json
from datetime import date
from pathlib import Path

import pytest

from npudoctor import config, plugins
from npudoctor.cli import main
from npudoctor.findings import Severity, Silenced


def load(tmp_path: Path, text: str) -> config.Config:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return config.load(str(path))


def test_without_a_file_the_defaults_hold() -> None:
    assert config.load().profile == "standard"


def test_a_site_silences_and_grades(tmp_path: Path) -> None:
    text = (
        'silence = ["system.disk"]\n[severity]\n"system.limits" = "info"\n[thresholds]\ntemperature_warn_celsius = 70\n'
    )
    loaded = load(tmp_path, text)
    config.names_are_known(loaded, plugins.load().checks.values(), "here")
    assert loaded.severity == {"system.limits": Severity.INFO}
    assert loaded.silences_on() == {"system.disk": Silenced()}
    assert loaded.thresholds["temperature_warn_celsius"] == 70


SILENCES = """
[[silence]]
id = "system.disk"
reason = "ticket 4711"
until = 2027-01-31

[[silence]]
id = "hccl"
"""


def test_a_silence_has_a_reason_and_a_last_day(tmp_path: Path) -> None:
    loaded = load(tmp_path, SILENCES)
    last = date(2027, 1, 31)
    assert loaded.silences_on(last) == {"system.disk": Silenced(reason="ticket 4711", until=last), "hccl": Silenced()}
    assert loaded.remarks(last) == []
    assert set(loaded.silences_on(date(2027, 2, 1))) == {"hccl"}
    assert loaded.remarks(date(2027, 2, 1)) == [
        "silence of system.disk expired on 2027-01-31; remove the entry or set a later date"
    ]


UNKNOWN = {
    'silence = ["system.dsik"]': "silence: unknown check, tag or finding 'system.dsik'; did you mean system.disk?",
    'silence = ["hcll"]': "silence: unknown check, tag or finding 'hcll'; did you mean hccl?",
    '[severity]\n"npu.helth" = "info"': "severity: unknown check 'npu.helth'; did you mean npu.health?",
    "[thresholds]\ntemperature_warn_celcius = 70": "unknown threshold 'temperature_warn_celcius'; did you mean "
    "temperature_warn_celsius?",
    'silence = ["zzzzzzzzzz"]': "unknown check, tag or finding 'zzzzzzzzzz'; see `npudoctor list",
}


@pytest.mark.parametrize(("text", "said"), UNKNOWN.items())
def test_an_unknown_name_is_refused_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    assert main(["check", "--simulate", "bare-host", "--config", str(path)]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert str(path) in told.err and said in told.err


PLUGIN = '''
from collections.abc import Iterator
from npudoctor.sdk import Finding, Options, Threshold, check

MOST = Threshold("site_cards", 8, "cards", "our servers have eight")

@check("site.cards", tags=("ours",), thresholds=(MOST,))
def cards(options: Options) -> Iterator[Finding]:
    """Not too many."""
    yield Finding(summary=f"at most {MOST.of(options):g}")
'''


def test_names_of_a_plug_in_are_known_and_its_threshold_reaches_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "config.toml").write_text(
        '[[silence]]\nid = "ours"\nreason = "later"\nuntil = 9999-12-31\n[thresholds]\nsite_cards = 16\n'
        '[severity]\n"site.cards" = "warning"\n',
        encoding="utf-8",
    )
    common = ["--plugin", str(tmp_path / "site.py"), "--config", str(tmp_path / "config.toml")]
    assert main(["check", "site.cards", "--json", "--simulate", "bare-host", *common]) == 0
    report = json.loads(capsys.readouterr().out)
    (result,) = report["results"]
    assert (report["verdict"], report["summary"]["silenced"], result["status"]) == ("ok", 1, "silenced")
    assert (result["findings"][0]["summary"], result["findings"][0]["severity"]) == ("at most 16", "warning")
    assert result["silenced"] == {"reason": "later", "until": "9999-12-31"}
    assert main(["list", *common]) == 0
    assert "[silenced until 9999-12-31: later]" in capsys.readouterr().out
    assert main(["check", "site.cards", "-vv", "--simulate", "bare-host", *common]) == 0
    text = capsys.readouterr().out
    assert "silenced until 9999-12-31: later (1 finding)" in text and "at most 16" in text


def test_an_ended_silence_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.toml").write_text('[[silence]]\nid = "npu.present"\nuntil = 2020-01-01\n', encoding="utf-8")
    arguments = ["check", "npu.present", "--simulate", "bare-host", "--config", str(tmp_path / "config.toml")]
    assert main(arguments) == 1
    assert capsys.readouterr().err.count("silence of npu.present expired on 2020-01-01") == 1


def test_where_a_plug_in_is_broken_its_names_are_let_pass(tmp_path: Path) -> None:
    (tmp_path / "site.py").write_text("raise RuntimeError", encoding="utf-8")
    broken = plugins.load([str(tmp_path / "site.py")])
    checks, complete = broken.checks.values(), not broken.broken
    config.names_are_known(load(tmp_path, 'silence = ["site.cards"]'), checks, "here", complete=complete)
    with pytest.raises(config.ConfigError, match=r"did you mean npu\.health"):
        config.names_are_known(load(tmp_path, 'silence = ["npu.helth"]'), checks, "here", complete=complete)


WRONG = {
    'xyz = "quick"': "unknown key 'xyz'; known are auto_fix, changes, daemon, expect_idle, fail_on",
    'profil = "quick"': "unknown key 'profil'; did you mean profile?",
    'profile = "fast"': "profile: input should be 'quick', 'standard' or 'full', found 'fast'",
    "tool_timeout_s = 0": "tool_timeout_s: input should be greater than 0, found 0",
    'expect_idle = "perhaps"': "expect_idle: expected true or false",
    '[severity]\n"npu.health" = "fatal"': "severity.npu.health: input should be 'info'",
    "profile = ": "not valid TOML",
    '[[silence]]\nreason = "why"': "silence.0.id: this key is missing",
    '[[silence]]\nid = "npu"\nuntil = "soon"': "silence.0.until: expected a date",
    "[thresholds]\nany = -1": "thresholds.any: input should be greater than or equal to 0",
    "[thresholds]\nany = nan": "thresholds.any: input should be a finite number",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items())
def test_what_is_wrong_is_named_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(config.ConfigError) as problem:
        load(tmp_path, text)
    assert said in str(problem.value)
    assert str(problem.value).startswith(str(tmp_path))
    assert "\n" not in str(problem.value)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match="No such file"):
        config.load(str(tmp_path / "absent.toml"))


def test_a_person_s_file_is_found_before_the_system_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "npudoctor" / "config.toml"
    path.parent.mkdir()
    path.write_text('profile = "quick"\n', encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config.load().profile == "quick"

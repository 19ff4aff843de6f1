"""The site's configuration: what is right is taken, what is wrong is named with file, key and what was expected."""

from pathlib import Path

import pytest

from npudoctor import config
from npudoctor.findings import Severity


def load(tmp_path: Path, text: str) -> config.Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return config.load(str(path))


def test_without_a_file_the_defaults_hold() -> None:
    assert config.load().profile == "standard"


def test_a_site_silences_and_grades(tmp_path: Path) -> None:
    text = (
        'silence = ["system.clock"]\n[severity]\n"system.limits" = "info"\n[thresholds]\nnpu_temperature_celsius = 70\n'
    )
    loaded = load(tmp_path, text)
    assert loaded.severities == {"system.limits": Severity.INFO, "system.clock": None}
    assert loaded.thresholds["npu_temperature_celsius"] == 70


WRONG = {
    'profil = "quick"': "there is no key 'profil'; known are expect_idle, fail_on",
    'profile = "fast"': "profile: input should be 'quick', 'standard' or 'full', found 'fast'",
    "tool_timeout_s = 0": "tool_timeout_s: input should be greater than 0, found 0",
    'expect_idle = "perhaps"': "expect_idle: input should be a valid boolean",
    '[severity]\n"npu.health" = "fatal"': "severity.npu.health: input should be 'info'",
    "profile = ": "not valid TOML",
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
    path.write_text('profile = "quick"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config.load().profile == "quick"

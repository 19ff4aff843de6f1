"""What all tests share: where the real captures lie, and how thorough the mutations are."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared"

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
settings.register_profile("default", patient, max_examples=60, derandomize=True)
settings.register_profile("thorough", patient, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real outputs and labelled nodes beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared with the real outputs is not there")
    return SHARED


@pytest.fixture(autouse=True)
def _no_site_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever runs the tests may have a configuration of their own; it must not decide what they see."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    for name in ("NPUDOCTOR_CONFIG", "NPUDOCTOR_PYTHON", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

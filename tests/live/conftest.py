"""Real interpreters as the target of simulated nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.findings import Report, Status
from npudoctor.testing import run
from tests.fake_cann.target import COMPILER_PACKAGES, NodeWithTarget, metadata

Diagnose = Callable[..., Report]
"""`variables`, `folder` (packages that come first), `said` (the node), `names` and options of a run."""


def errors(report: Report) -> dict[str, list[str]]:
    """The findings of error severity by check."""
    return {
        result.check: [finding.summary for finding in result.findings]
        for result in report.results
        if result.status is Status.ERROR
    }


def blocked(report: Report) -> dict[str, str | None]:
    return {result.check: result.blocked_by for result in report.results if result.status is Status.SKIPPED}


@pytest.fixture(scope="session")
def compiler_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Metadata of what CANN's operator compiler wants."""
    folder = tmp_path_factory.mktemp("packages")
    return metadata(folder, **dict.fromkeys(COMPILER_PACKAGES, "99.0"))


@pytest.fixture
def diagnose(compiler_packages: Path) -> Diagnose:
    """Diagnose a healthy server of 8 x 910B1 whose target is a real Python."""

    def diagnosed(
        python: Path = Path(sys.executable),
        *names: str,
        libraries: Path | None = None,
        folder: Path | None = None,
        variables: dict[str, str] | None = None,
        said: dict[str, Any] | None = None,
        **options: Any,
    ) -> Report:
        first = ":".join(str(path) for path in (folder, compiler_packages) if path is not None)
        given = {"PYTHONPATH": first, "LD_LIBRARY_PATH": str(libraries or ""), **(variables or {})}
        usual = {"product": "atlas-800t-a2-910b1", "cann": {"version": "9.1.0"}, "driver": {"version": "26.0.rc1"}}
        node = NodeWithTarget({**usual, **(said or {})}, python, given)
        return run(node, *(names or ("cann", "python", "npu", "driver", "env")), **options)

    return diagnosed

"""What the tests with the stub library share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from npudoctor.host.live import library
from tests.fake_dcmi import nodes


@pytest.fixture(autouse=True, scope="module")
def _a_busy_machine_is_no_hang() -> Iterator[None]:
    """Only where a test lets a chip hang does the door give up soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "CALL_S", nodes.PATIENT_S)
        patch.setattr(library, "INIT_S", nodes.PATIENT_S)
        yield

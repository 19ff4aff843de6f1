"""Numbers as a person reads them."""

import pytest

from npudoctor.messages import gigabytes


@pytest.mark.parametrize(
    ("megabytes", "text"),
    [(0, "0 MB"), (1023, "1023 MB"), (1024, "1 GB"), (23_900, "23.3 GB"), (65_536, "64 GB"), (671_744, "656 GB")],
)
def test_memory_is_rounded_in_one_way(megabytes: int, text: str) -> None:
    assert gigabytes(megabytes) == text


def test_memory_in_use_is_never_more_than_there_is() -> None:
    assert gigabytes(65_535) == gigabytes(65_536) == "64 GB"

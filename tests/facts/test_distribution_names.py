"""Names of distributions: a user's folder may have any name, and commands to paste hold them."""

from __future__ import annotations

import pytest

from npudoctor.facts.python.target_python import _distributions


@pytest.mark.parametrize("name", ["nvidia-cu$(touch pwned)", "nvidia-nv;touch pwned #", "a b", "a\n", "-r", ""])
def test_a_name_that_no_distribution_has_is_left_out(name: str) -> None:
    about = {"version": "1.0", "requires": []}
    assert list(dict(_distributions({name: about, "torch_npu": about}))) == ["torch-npu"]

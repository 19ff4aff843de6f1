"""The smallest change that makes releases fit each other."""

from __future__ import annotations

import pytest

from npudoctor import knowledge
from npudoctor.knowledge.pairs import Fit
from npudoctor.knowledge.solver import Solution, Stack, solve

FITTING = {"torch": "2.6.0", "torch_npu": "2.6.0", "cann": "8.2.RC1", "python": "3.10.14"}


def solved(**stack: str | None) -> Solution:
    found = solve(Stack(**{**FITTING, **stack}), knowledge.compatibility())  # type: ignore[arg-type]
    assert found is not None
    return found


def changes(**stack: str | None) -> dict[str, str]:
    return {change.part: change.then for change in solved(**stack).changes}


def test_what_fits_stays() -> None:
    assert changes() == {}
    assert solved().text == "nothing has to change"
    assert solved().fit is Fit.PAIRED


@pytest.mark.parametrize(
    ("stack", "wanted"),
    [
        ({"torch": "2.5.1"}, {"torch": "2.6.0"}),  # torch_npu fits the CANN: torch is the odd one
        ({"torch": None}, {"torch": "2.6.0"}),
        ({"torch_npu": None}, {"torch_npu": "2.6.0"}),  # the torch that is there is kept
        ({"numpy": "2.1.0"}, {"numpy": "1.26.4"}),  # numpy 2 needs CANN 8.5
        ({"nnal": "8.0.0"}, {"nnal": "8.2.RC1"}),
        ({"driver": "25.2.0"}, {}),
    ],
)
def test_the_odd_one_is_changed(stack: dict[str, str | None], wanted: dict[str, str]) -> None:
    assert changes(**stack) == wanted


def test_a_torch_npu_of_another_cann_is_changed_before_the_cann_is() -> None:
    found = changes(torch="2.9.0", torch_npu="2.7.1", cann="9.1.0", python="3.11")
    assert set(found) == {"torch_npu"}
    assert found["torch_npu"].startswith("2.9.0")


def test_a_python_without_wheels_is_changed_last() -> None:
    found = solved(python="3.14.0", torch="2.6.0", torch_npu="2.6.0")
    assert found.of("python") == "3.11"
    assert "keep torch and torch_npu" in found.text


def test_the_wheel_s_own_word_comes_before_the_table() -> None:
    found = solved(torch="2.6.0", needs_torch="2.5.1")
    assert "metadata" in found.rests_on
    assert {change.part for change in found.changes} == {"torch"}


def test_what_no_table_knows_stays_and_is_said() -> None:
    found = solved(torch="2.99.0", torch_npu="2.99.0", cann="12.0.0", python=None)
    assert found.changes == ()
    assert "no table as of" in found.rests_on


def test_a_release_with_a_known_defect_is_never_proposed() -> None:
    found = changes(torch="2.12.0", torch_npu="2.12.0", cann="9.1.0", python="3.12.4")
    assert found == {"torch_npu": "2.12.0.post2"} or "2.12.0" not in found.values()
    assert found


def test_where_the_tables_have_nothing_there_is_no_answer() -> None:
    assert solve(Stack(cann="7.7.7"), knowledge.compatibility()) is None


@pytest.mark.thorough
def test_every_published_pair_needs_no_change() -> None:
    table = knowledge.compatibility()
    for release in table.releases:
        for cann in release.cann:
            if table.known_bad(release.version, cann=cann):
                continue
            found = solve(Stack(torch=release.torch, torch_npu=release.version, cann=cann), table)
            assert found is not None
            assert found.changes == (), (release.version, cann, found.text)


def test_no_test_build_is_proposed_and_a_wheel_of_the_index_goes_first() -> None:
    table = knowledge.compatibility()
    for release in table.releases:
        for cann in release.cann:
            found = solve(Stack(cann=cann, python="3.11", torch="2.1.0"), table)
            proposed = table.release(found.torch_npu) if found is not None else None
            assert proposed is None or not proposed.is_test_build, (cann, found)
            listed = table.releases_for_cann(cann)
            assert not listed or listed[0].on_pypi or not any(one.on_pypi for one in listed), cann

"""Data of JSON and TOML into records: what fits, and the line for what does not."""

import enum
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor import data
from npudoctor.records import field, record
from npudoctor.value_rules import Between


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@record(frozen=True)
class Port:
    number: Annotated[int, Between(1, 65535)]
    name: str | None = None


@record(frozen=True, kw_only=True)
class Site:
    name: str
    ports: tuple[Port, ...] = ()
    limits: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    colour: Colour = Colour.RED
    level: Literal["low", "high"] = "low"
    ratio: float = 0.5
    safe: bool = True
    some: tuple[int, ...] | Literal["all"] = "all"
    groups: frozenset[str] = frozenset()
    names: list[str] = field(default_factory=list)
    free: Any = None


WHOLE = {
    "name": "a",
    "ports": [{"number": 1}, {"number": 22, "name": "ssh"}],
    "limits": {"nofile": [1, 2], "core": None},
    "labels": {"rack": "r1"},
    "colour": "blue",
    "level": "high",
    "ratio": 1,
    "safe": False,
    "some": [1, 2],
    "groups": ["a", "a"],
    "names": ["x"],
    "free": [{}],
}


def test_data_that_fits_becomes_records() -> None:
    assert data.read(Site, {"name": "a"}) == Site(name="a")
    assert data.read(Site, WHOLE) == Site(
        name="a",
        ports=(Port(1), Port(22, "ssh")),
        limits={"nofile": (1, 2), "core": None},
        labels={"rack": "r1"},
        colour=Colour.BLUE,
        level="high",
        ratio=1,
        safe=False,
        some=(1, 2),
        groups=frozenset("a"),
        names=["x"],
        free=[{}],
    )
    assert data.read(Site, {"name": "a", "later": 1}, ignore_unknown=True) == Site(name="a")
    assert data.read(tuple[str, ...], ["a"]) == ("a",)


WRONG = [
    ([], "site.json: expected an object, found []"),
    ({}, "site.json: name: this key is missing"),
    ({"name": 7}, "site.json: name: expected text, found 7"),
    ({"name": None}, "site.json: name: expected text, found null"),
    ({"name": "a", "prots": []}, "site.json: prots: no such key; did you mean ports? (expected one of colour, free, "),
    ({"name": "a", "ports": {}}, "site.json: ports: expected a list, found {}"),
    ({"name": "a", "ports": [{}]}, "site.json: ports[0]: number: this key is missing"),
    ({"name": "a", "ports": [{"number": True}]}, "ports[0]: number: expected a whole number, found true"),
    ({"name": "a", "ports": [{"number": 0}]}, "ports[0]: number: expected a whole number from 1 to 65535, found 0"),
    ({"name": "a", "limits": {"nofile": [1]}}, "site.json: limits: nofile: expected a list of 2, found [1]"),
    ({"name": "a", "labels": {"rack": 1}}, "site.json: labels: rack: expected text, found 1"),
    ({"name": "a", "colour": "green"}, 'site.json: colour: expected one of "red", "blue", found "green"'),
    ({"name": "a", "level": []}, 'site.json: level: expected one of "low", "high", found []'),
    ({"name": "a", "ratio": "1"}, 'site.json: ratio: expected a number, found "1"'),
    ({"name": "a", "safe": 1}, "site.json: safe: expected true or false, found 1"),
    ({"name": "a", "some": "none"}, 'site.json: some: expected a list or one of "all", found "none"'),
    ({"name": "a", "some": ["x"]}, 'site.json: some[0]: expected a whole number, found "x"'),
    ({"name": "a" * 99, "safe": "y" * 99}, "y..."),
]


@pytest.mark.parametrize(("said", "line"), WRONG)
def test_what_does_not_fit_is_one_line(said: Any, line: str) -> None:
    with pytest.raises(data.DataError) as caught:
        data.read(Site, said, "site.json")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_range_holds_neither_nan_nor_infinity() -> None:
    for number in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(data.DataError, match="from 0 to 1"):
            data.read(Annotated[float, Between(0, 1)], json.loads(number))  # type: ignore[arg-type]


def test_texts_stand_for_numbers_where_they_may() -> None:
    said = {"name": "7", "ratio": "1.5", "safe": "no", "some": ["3"]}
    assert data.read(Site, said, texts=True) == Site(name="7", ratio=1.5, safe=False, some=(3,))
    with pytest.raises(data.DataError, match=r"^safe: expected true or false, found \"perhaps\"$"):
        data.read(Site, {"name": "a", "safe": "perhaps"}, texts=True)


@pytest.mark.thorough
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.sampled_from([*WHOLE, "x"]), one),
    )
)
def test_anything_is_read_or_refused(said: Any) -> None:
    try:
        assert isinstance(data.read(Site, said), Site)
    except data.DataError as problem:
        assert str(problem)

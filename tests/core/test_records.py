"""A record is like a dataclass, and refuses what it does not do."""

import copy
import dataclasses
import pickle
import re
from typing import Any

import pytest

from npudoctor import records


@records.record(frozen=True)
class Chip:
    """A chip."""

    npu_id: int
    name: str | None = None
    pids: tuple[int, ...] = ()

    @property
    def busy(self) -> bool:
        return bool(self.pids)


@records.record(frozen=True, kw_only=True)
class Node:
    """A node."""

    chips: tuple[Chip, ...]
    labels: dict[str, str] = records.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Original:
    """The same, as the standard library makes it."""

    npu_id: int
    name: str | None = None
    pids: tuple[int, ...] = ()


def test_fields_defaults_and_properties_are_there() -> None:
    assert (Chip(3).npu_id, Chip(3).name, Chip(3, pids=(1,)).busy) == (3, None, True)
    assert Node(chips=()).labels == {}
    assert Node(chips=()).labels is not Node(chips=()).labels


def test_the_standard_library_takes_it_for_its_own() -> None:
    node = Node(chips=(Chip(0), Chip(1, "910B1")))
    assert dataclasses.is_dataclass(node)
    assert [field.name for field in dataclasses.fields(Chip)] == ["npu_id", "name", "pids"]
    assert dataclasses.asdict(node)["chips"][1] == {"npu_id": 1, "name": "910B1", "pids": ()}
    assert dataclasses.replace(Chip(1), name="910B3") == Chip(1, "910B3")


def test_equality_hash_and_repr_are_those_of_a_dataclass() -> None:
    assert Chip(1) == Chip(1) != Chip(2)
    assert Chip(1) != Original(1)  # type: ignore[comparison-overlap]
    assert len({Chip(1), Chip(1), Chip(2)}) == 2
    assert repr(Chip(1)) == repr(Original(1)).replace("Original", "Chip")
    match Chip(4, "910A"):
        case Chip(number, "910A"):
            assert number == 4
        case _:
            raise AssertionError


@records.record(frozen=True, order=True)
class Version:
    """A version whose text does not count."""

    numbers: tuple[int, ...]
    text: str = records.field(default="", compare=False)


def test_records_are_ordered_where_they_say_so() -> None:
    assert Version((8, 0)) < Version((8, 1), "8.1") >= Version((8, 1))
    assert Version((8, 1), "x") == Version((8, 1), "y")
    assert sorted([Version((9,)), Version((8, 5))])[0] == Version((8, 5))


def test_it_cannot_be_changed() -> None:
    chip: Any = Chip(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        chip.name = "x"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del chip.name
    with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
        chip.other = 1


@records.record
class Counter:
    """One that is not frozen, as in the standard library."""

    count: int = 0


def test_only_a_frozen_one_is_frozen() -> None:
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


@records.record(frozen=True)
class Card(Chip):
    """A chip with a slot."""

    slot: str = "?"


def test_fields_are_inherited() -> None:
    assert Card(1, slot="4") == Card(1, None, (), "4")
    assert [field.name for field in dataclasses.fields(Card)] == ["npu_id", "name", "pids", "slot"]


WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1, "x", (), 4), {}),
    ((1,), {"npu_id": 1}),
    ((1,), {"nam": "x"}),
]


@pytest.mark.parametrize(("args", "named"), WRONG)
def test_wrong_arguments_are_refused(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Chip(*args, **named)
    with pytest.raises(TypeError):
        Original(*args, **named)


def test_it_can_be_copied_and_pickled() -> None:
    node = Node(chips=(Chip(1),))
    assert copy.deepcopy(node) == node
    assert pickle.loads(pickle.dumps(node)) == node


def with_post_init() -> type:
    class Made:
        def __post_init__(self) -> None: ...

    return Made


def with_fields(default: Any = dataclasses.MISSING, **more: Any) -> type:
    given = {} if default is dataclasses.MISSING else {"first": default}
    return type("Made", (), {"__annotations__": {"first": int, **more}, **given})


REFUSED: list[tuple[type, dict[str, Any], str]] = [
    (with_post_init(), {}, "Made: a record has no __post_init__"),
    (with_fields(), {"slots": True}, "unexpected keyword argument 'slots'"),
    (with_fields(), {"unsafe_hash": True}, "unexpected keyword argument 'unsafe_hash'"),
    (with_fields([]), {}, "Made.first: a mutable default needs"),
    (with_fields({}), {}, "Made.first: a mutable default needs"),
    (with_fields(1, second=int), {}, "Made.second has no default and is behind first"),
    (with_fields(dataclasses.field(default=1, init=False)), {}, "Made.first: a record's field has"),
    (with_fields(dataclasses.field(default=1, repr=False)), {}, "Made.first: a record's field has"),
    (with_fields(dataclasses.field(default=1, hash=True)), {}, "Made.first: a record's field has"),
    (with_fields(second=dataclasses.InitVar[int]), {}, "Made.second: a record has no InitVar"),
    (with_fields(_=dataclasses.KW_ONLY), {}, "Made._: a record has no InitVar and no KW_ONLY"),
]


@pytest.mark.parametrize(("made", "options", "why"), REFUSED)
def test_what_a_record_does_not_do_it_refuses(made: type, options: dict[str, Any], why: str) -> None:
    with pytest.raises(TypeError, match=re.escape(why)):
        records.record(made, **options)


def test_a_required_field_may_follow_where_all_are_given_by_name() -> None:
    made: Any = records.record(with_fields(1, second=int), kw_only=True)
    assert (made(second=2).first, made(second=2).second) == (1, 2)

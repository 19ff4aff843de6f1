"""Root examines a user's Python as that user: a card that this user may not open is not judged in his name."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.findings import Because, Status
from npudoctor.host import FileStat, User
from npudoctor.records import replace
from npudoctor.testing import run

ALICE = User(name="alice", uid=24242, gid=24242, gids=(24242,), groups=())


class OfAlice:
    """A node on which root examines a Python that alice can write."""

    def __init__(self, *, gids: Sequence[int] = (24242,), mode: int = 0o660) -> None:
        self._host: Any = sim.simulate("healthy-910a")
        self._user = replace(ALICE, gids=tuple(gids))
        self._mode = mode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def target_user(self, _: str) -> User:
        return self._user

    def target_environ(self, _: str) -> Mapping[str, str]:
        return dict(self._host.environ)

    def stat(self, path: str) -> FileStat:
        found: FileStat = self._host.stat(path)
        return replace(found, mode=self._mode) if path.startswith("/dev/davinci") else found


def _import(host: OfAlice, check: str = "python.import-torch-npu") -> Any:
    report = run(host, profile="full")
    return next(result for result in report.results if result.check == check)


def test_what_a_user_who_may_open_no_card_cannot_import_is_not_known_and_names_the_way_out() -> None:
    result = _import(OfAlice())
    assert (result.status, result.because) == (Status.SKIPPED, Because.NO_RIGHT)
    assert "runs as user alice, who has no access to /dev/davinci0" in result.reason
    assert "name another one with --python" in result.reason
    assert not [result.check for result in run(OfAlice(), profile="full").results if result.status is Status.ERROR]


@pytest.mark.parametrize("host", [OfAlice(gids=(24242, 1000)), OfAlice(mode=0o666)], ids=["group", "everybody"])
def test_a_user_who_may_open_them_is_examined(host: OfAlice) -> None:
    assert _import(host).status is Status.OK

"""Who broke a run, where a death and a complaint of it come at the same time."""

import json
import socket
from pathlib import Path

import pytest

from npudoctor.smoke import blame, plan
from npudoctor.smoke.watch import Watch


@pytest.mark.parametrize("dies", [0, 1])
def test_a_rank_that_died_is_blamed_before_one_that_complained_at_once(tmp_path: Path, dies: int) -> None:
    made = plan.make(plan.Request(device="cpu", ranks=2), plan.Known(python="python3"))
    watch = Watch(made, str(tmp_path / "socket"))
    ranks: list[socket.socket] = []
    for rank in (0, 1):
        ranks.append(socket.socket(socket.AF_UNIX))
        ranks[-1].connect(str(tmp_path / "socket"))
        say(ranks[-1], k="hello", rank=rank, pid=1, world="2", t=0.0)
        say(ranks[-1], k="begin", rank=rank, stage="training", t=0.0)
        list(watch.wait(1.0))
        list(watch.wait(1.0))
    complains = 1 - dies
    say(ranks[complains], k="failed", rank=complains, message="RuntimeError: error code is 4", t=0.0)
    ranks[dies].close()
    list(watch.wait(1.0))
    ranks[complains].close()
    watch.close()
    assert watch.ranks[dies].gone_at is not None
    assert blame.firsts([0, 1], watch.ranks) == frozenset({dies})


def say(to: socket.socket, **said: object) -> None:
    to.sendall((json.dumps(said) + "\n").encode())


@pytest.mark.parametrize(
    ("message", "pitfalls"),
    [
        ("ImportError: libhccl.so: cannot open shared object file: No such file or directory", ("P001",)),
        ("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory", ("P020",)),
        ("ImportError: libsomebody.so.1: cannot open shared object file: No such file or directory", ()),
        ("", ()),
    ],
)
def test_a_message_that_fits_many_failures_is_no_cause(message: str, pitfalls: tuple[str, ...]) -> None:
    assert blame.known_of("", message)[1] == pitfalls

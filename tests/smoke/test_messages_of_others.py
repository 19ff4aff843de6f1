"""What a rank may send to npudoctor: its Python belongs to the user that it runs as, npudoctor may be root's."""

import socket
from pathlib import Path

import pytest

from npudoctor import plugins
from npudoctor.data import to_data
from npudoctor.facts.node import smoke
from npudoctor.findings import Status
from npudoctor.sdk import Options
from npudoctor.smoke import blame, plan
from npudoctor.smoke.events import Ended, Event
from npudoctor.smoke.session import Session
from npudoctor.smoke.watch import SPARE_CONNECTIONS, Watch
from npudoctor.testing import FakeHost

DIGITS = "9" * 4000
FAILED = '{"k": "failed", "rank": 0, "message": "RuntimeError: x"}'
MESSAGES = (
    '{"k": "failed", "rank": 0}',
    '{"k": "failed", "rank": 0, "message": 5}',
    '{"k": "failed", "rank": 0, "message": ["x"]}',
    "[" * 500_000,
    "5",
    "null",
    '{"k": {}, "rank": 0}',
    '{"k": "hello", "rank": []}',
    '{"k": "begin", "rank": 0, "stage": {}}\n' + FAILED,
    '{"k": "begin", "rank": 0, "stage": "x"}\n{"k": "end", "rank": 0, "stage": "x"}\n' + FAILED,
    '{"k": "at", "rank": 0, "what": {}}\n' + FAILED,
    f'{{"k": "bandwidth", "rank": 0, "size": {DIGITS}, "s": 1.5, "dtype": "x", "calls": 1}}',
    '{"k": "bandwidth", "rank": 0, "size": 5, "s": NaN, "dtype": "x", "calls": 1}',
    '{"k": "bandwidth", "rank": 0, "size": 5, "s": 1e999, "dtype": "x", "calls": 1}',
    '{"k": "loss", "rank": 0, "step": 1, "loss": 1e999, "s": "x"}',
    '{"k": "collective", "rank": 0, "op": {}, "dtype": "x", "ok": false, "slots": ["x"]}',
    '{"k": "measured", "rank": 0, "name": "card-memory", "value": 5}',
    '{"k": "measured", "rank": 0, "name": "earlier-bus-gb-s", "value": 1}',
)


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_no_message_of_a_rank_ends_npudoctor(tmp_path: Path, message: str) -> None:
    made = plan.make(plan.Request(device="cpu", ranks=1), plan.Known(python="python3"))
    watch = Watch(made, str(tmp_path / "socket"))
    seen: list[Event] = [made.planned]
    with socket.socket(socket.AF_UNIX) as rank:
        rank.connect(str(tmp_path / "socket"))
        seen += watch.wait(60.0)
        rank.sendall(b'{"k": "hello", "rank": 0, "pid": 1, "world": "1"}\n')
        seen += watch.wait(60.0)
        rank.settimeout(60.0)
        for piece in range(0, len(message) + 1, 1 << 15):
            rank.sendall(f"{message}\n".encode()[piece : piece + (1 << 15)])
            seen += watch.wait(60.0)
    while watch.ranks[0].gone_at is None:
        seen += watch.wait(60.0)
    watch.close()
    first = blame.firsts([0], watch.ranks)
    seen.append(blame.describe(made, watch.ranks[0], first=0 in first, at_s=1.0, folder=str(tmp_path)))
    run = smoke.of_events(to_data(event) for event in (*seen, Ended(at_s=2.0)))
    assert not run.card_memory and run.earlier_bus_gb_s is None
    session = Session(catalog=plugins.load(), host=FakeHost(), request=plan.Request(device="cpu"), options=Options())
    assert [one.check for one in session.results_of(run) if one.status is Status.CRASHED] == []


def test_a_user_cannot_take_all_descriptors_by_connecting(tmp_path: Path) -> None:
    made = plan.make(plan.Request(device="cpu", ranks=1), plan.Known(python="python3"))
    watch = Watch(made, str(tmp_path / "socket"))
    others = [socket.socket(socket.AF_UNIX) for _ in range(2 * SPARE_CONNECTIONS)]
    try:
        for one in others:
            one.connect(str(tmp_path / "socket"))
            list(watch.wait(60.0))
        assert len(watch._connections) == SPARE_CONNECTIONS + 1
        others[0].sendall(b'{"k": "hello", "rank": 0, "pid": 1, "world": "1"}\n')
        assert [event.event for event in watch.wait(60.0)] == ["rank-started"]
    finally:
        watch.close()
        for one in others:
            one.close()

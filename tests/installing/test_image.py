"""The smoke run in an image of the site as a part of the proof: by the engine that has the image, never pulled."""

import os
from pathlib import Path

import pytest

from npudoctor.cli import main, setup_image, setup_node
from npudoctor.facts.node.device_nodes import DeviceNode, DeviceNodes
from npudoctor.fixer.journal import Journal
from npudoctor.host import Completed, Refused
from npudoctor.installing import run, state

from .node import Tree, tree
from .test_command import Given

NODES = DeviceNodes(
    cards=tuple(DeviceNode(path=f"/dev/davinci{number}", number=number) for number in (0, 1)),
    managers=(DeviceNode(path="/dev/davinci_manager"),),
)
IMAGE = "site/train:8.5.0"


class Node(Tree):
    """A node with engines, of which some have the image."""

    engines: tuple[str, ...] = ("docker",)
    having: tuple[str, ...] = ("docker",)
    code: int | None = 0
    ran: list[tuple[str, ...]]

    def which(self, name: str) -> str | None:
        if name in setup_image.ENGINES:
            return f"/usr/bin/{name}" if name in self.engines else None
        return super().which(name)

    def run_streaming(self, argv, **how):  # type: ignore[no-untyped-def]
        if argv[0] not in setup_image.ENGINES:
            return super().run_streaming(argv, **how)
        self.ran.append(tuple(argv))
        if argv[1] == "image":
            return Completed(returncode=0 if argv[0] in self.having else 1)
        if argv[1] == "run":
            return Completed(returncode=self.code, stdout="rank 1 of 2: collectives\n", timed_out=self.code is None)
        return Completed(returncode=0)


@pytest.fixture(autouse=True)
def _itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_image, "itself", lambda: ("/opt/npudoctor",))
    monkeypatch.setattr(run, "POLL_S", 0.02)
    monkeypatch.setattr(run, "LET_GO_S", 0.0)


def node(folder: Path) -> Node:
    tree(folder)
    host = Node(root=str(folder))
    host.ran = []
    return host


def test_the_smoke_run_gets_all_npus_the_driver_and_npudoctor_and_its_lines_are_shown(tmp_path: Path) -> None:
    host, said = node(tmp_path), list[str]()
    assert setup_image.problem(host, NODES, IMAGE, said.append) == ""
    asked, began = host.ran
    assert asked == ("docker", "image", "inspect", IMAGE)
    assert began[:4] == ("docker", "run", "--rm", "--pull=never")
    assert {"--device=/dev/davinci0", "--device=/dev/davinci1", "--device=/dev/davinci_manager"} <= set(began)
    assert "-v=/opt/npudoctor:/opt/npudoctor:ro" in began
    assert any("/usr/local/Ascend/driver" in word for word in began)
    assert began[began.index(IMAGE) + 2 :] == ("-I", "-m", "npudoctor", "smoke")
    assert said[-1] == "  | rank 1 of 2: collectives"


def test_the_engine_is_that_which_has_the_image_and_none_pulls_one(tmp_path: Path) -> None:
    host = node(tmp_path)
    host.engines = ("docker", "nerdctl", "podman")
    host.having = ("podman",)
    assert setup_image.must_be_there(host, IMAGE) == "podman"
    host.having = ()
    with pytest.raises(Refused, match=f"no image {IMAGE} in docker, nerdctl, podman; npudoctor pulls none"):
        setup_image.must_be_there(host, IMAGE)
    host.engines = ()
    with pytest.raises(Refused, match="none is installed"):
        setup_image.must_be_there(host, IMAGE)
    for name in ("--privileged", "a b", "", "x;y"):
        with pytest.raises(Refused, match="expected the name of an image"):
            setup_image.must_be_there(host, name)


@pytest.mark.parametrize(
    ("code", "said"), [(1, "has failed with exit code 1"), (3, "has failed with exit code 3"), (None, "has not ended")]
)
def test_a_smoke_run_that_does_not_pass_is_no_proof(tmp_path: Path, code: int | None, said: str) -> None:
    host = node(tmp_path)
    host.code = code
    assert said in setup_image.problem(host, NODES, IMAGE, list[str]().append)
    assert (host.ran[-1][:3] == ("docker", "rm", "--force")) is (code is None)
    assert "no device node" in setup_image.problem(host, DeviceNodes(cards=()), IMAGE, list[str]().append)


def test_ready_needs_the_smoke_run_and_the_image_survives_the_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    given.host = host = node(tmp_path)
    images: list[str] = []
    of_test = given._caller

    def caller(*words: object) -> run.Caller:
        images.append(str(words[4]) if len(words) > 4 else "")
        return of_test()

    monkeypatch.setattr(setup_node, "caller_of", caller)
    host.having = ()
    with pytest.raises(Refused, match="npudoctor pulls none"):
        given.install(image=IMAGE)
    assert given.statuses() == []
    host.having = ("docker",)
    assert given.install(image=IMAGE) == 1
    journal = Journal(host, "/var/lib/npudoctor")
    assert state.image(journal, journal.runs()[-1]) == IMAGE
    host.boot = "33333333-3333-3333-3333-333333333333"
    assert given.go_on(resume=True) == 0
    assert images[-1] == IMAGE
    capsys.readouterr()


def test_the_smoke_run_comes_after_the_checks_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, wrong = node(tmp_path), ["an NPU is in alarm"]
    monkeypatch.setattr(setup_node, "_find_problems", lambda *_: list(wrong))
    monkeypatch.setattr(setup_node, "_gather_facts", lambda *_: {DeviceNodes: NODES})
    asked = setup_node.caller_of(None, host, None, (), IMAGE)  # type: ignore[arg-type]
    assert asked.wrong() == wrong
    assert host.ran == []
    wrong.clear()
    host.code = 1
    assert asked.wrong() == [f"the smoke run in {IMAGE} has failed with exit code 1"]
    without = setup_node.caller_of(None, host, None, ())  # type: ignore[arg-type]
    assert without.wrong() == []


def test_the_option_requires_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "--image", IMAGE]) == 2
    assert "--image requires --packages FOLDER" in capsys.readouterr().err


def test_the_python_of_the_system_is_mounted_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("sys.prefix", "/usr")
    with pytest.raises(Refused, match="install npudoctor's archive"):
        setup_image.itself()
    monkeypatch.setattr("sys.prefix", "/opt/npudoctor")
    monkeypatch.setattr("sys.base_prefix", "/opt/npudoctor")
    assert setup_image.itself() == (os.path.realpath("/opt/npudoctor"),)

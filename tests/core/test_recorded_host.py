"""A host whose answers are given: what silence means, how links and rights work, and that nothing leaves the tree."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.findings import Because
from npudoctor.host import Completed, Host, MutableHost, Unavailable, User, real_path
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.simulated.tree import DiskStore, FileTree, MemoryStore, Overlay
from npudoctor.host.simulated.tree_changes import ChangingTree

DEV = User(name="dev", uid=1005, gid=1005, gids=(1005, 1000), groups=("dev", "HwHiAiUser"))


def why(call: object, *args: object, **named: object) -> tuple[str, Because]:
    with pytest.raises(Unavailable) as caught:
        call(*args, **named)  # type: ignore[operator]
    return caught.value.reason, caught.value.because


def test_it_is_a_host_but_not_one_that_can_be_changed() -> None:
    assert isinstance(FakeHost(), Host)
    assert not isinstance(FakeHost(), MutableHost)


# Commands


def test_a_command_is_found_by_its_words_whatever_folder_the_tool_lies_in() -> None:
    host = FakeHost(commands={"npu-smi info": "table\n"})
    assert host.run(["/usr/local/sbin/npu-smi", "info"]) == Completed(returncode=0, stdout="table\n")


def test_a_tool_without_any_answer_and_without_a_file_is_not_installed() -> None:
    host = FakeHost(commands={"lsmod": ""})
    assert why(host.run, ["npu-smi", "info"]) == ("npu-smi is not installed", Because.ABSENT)
    assert host.which("npu-smi") is None


def test_a_question_that_nobody_asked_a_known_tool_is_not_in_the_recording() -> None:
    host = FakeHost(commands={"npu-smi info": ""})
    assert why(host.run, ["npu-smi", "info", "-t", "topo"]) == (
        "`npu-smi info -t topo` is not in this recording",
        Because.NOT_RECORDED,
    )


@pytest.mark.parametrize("place", ["/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/opt/tools/npu-smi"])
def test_an_executable_file_makes_a_tool_known(place: str) -> None:
    host = FakeHost(files={place: ""}, stats={place: Overlay(mode=0o755)}, environ={"PATH": "/opt/tools:/bin"})
    assert host.which("npu-smi") == place
    assert why(host.run, ["npu-smi", "info"])[1] is Because.NOT_RECORDED


def test_a_file_that_nobody_may_execute_is_no_tool() -> None:
    host = FakeHost(files={"/usr/local/bin/npu-smi": ""})
    assert host.which("npu-smi") is None
    reason = "/usr/local/bin/npu-smi cannot be executed: its mode is 0644"
    assert why(host.run, ["npu-smi", "info"]) == (reason, Because.NO_RIGHT)


def test_a_tool_of_which_only_answers_are_known_goes_by_its_name() -> None:
    assert FakeHost(commands={"npu-smi -v": ""}).which("npu-smi") == "npu-smi"


def test_where_nobody_looked_a_tool_is_neither_there_nor_missing() -> None:
    host = FakeHost(unrecorded="unknown", missing=["hccn_tool -i 0 -link -g"])
    assert why(host.run, ["npu-smi", "info"]) == ("`npu-smi info` is not in this recording", Because.NOT_RECORDED)
    assert why(host.which, "npu-smi")[1] is Because.NOT_RECORDED
    assert why(host.run, ["hccn_tool", "-i", "3", "-ip", "-g"]) == ("hccn_tool is not installed", Because.ABSENT)
    assert host.which("hccn_tool") is None


def test_after_a_hung_call_the_recorder_asked_that_tool_no_more() -> None:
    hung = Completed(returncode=None, timed_out=True, seconds=20.0)
    host = FakeHost(commands={"npu-smi info": hung})
    assert host.run(["npu-smi", "info"]) is hung
    reason, because = why(host.run, ["npu-smi", "info", "-t", "topo"])
    assert because is Because.TIMED_OUT
    assert "`npu-smi info` did not answer" in reason


def test_probes_inside_the_target_python_have_keys_of_their_own() -> None:
    host = FakeHost(commands={"python import torch": '{"ok": true}'})
    assert host.run_in_target("import torch", "/venv/bin/python3", timeout=1).stdout == '{"ok": true}'
    assert why(host.run_in_target, "import torch_npu", "/venv/bin/python3", timeout=1) == (
        "`python import torch_npu` is not in this recording",
        Because.NOT_RECORDED,
    )
    assert why(FakeHost().run_in_target, "environment", "/venv/bin/python3", timeout=1) == (
        "/venv/bin/python3 does not exist",
        Because.ABSENT,
    )


# Files


def test_a_missing_file_is_absent_or_unrecorded() -> None:
    absent, unknown = FakeHost(), FakeHost(unrecorded="unknown", missing=["/etc/hccn.conf", "/opt/Ascend"])
    assert why(absent.read, "/etc/hccn.conf") == ("/etc/hccn.conf does not exist", Because.ABSENT)
    assert absent.exists("/etc/hccn.conf") is False
    assert why(unknown.read, "/etc/hosts") == ("/etc/hosts is not in this recording", Because.NOT_RECORDED)
    assert why(unknown.exists, "/etc/hosts")[1] is Because.NOT_RECORDED
    assert why(unknown.list_dir, "/etc/sysctl.d")[1] is Because.NOT_RECORDED
    assert why(unknown.read, "/etc/hccn.conf") == ("/etc/hccn.conf does not exist", Because.ABSENT)
    assert unknown.exists("/opt/Ascend/cann/set_env.sh") is False


def test_a_folder_exists_where_a_file_lies_below_it() -> None:
    host = FakeHost(files={"/etc/sysctl.d/99-x.conf": "a", "/etc/hosts": ""}, links={"/etc/mtab": "/proc/mounts"})
    assert host.exists("/etc/sysctl.d")
    assert host.list_dir("/etc") == ("hosts", "mtab", "sysctl.d")
    assert host.stat("/etc/sysctl.d").kind == "dir"
    assert host.list_dir("/") == ("etc",)
    assert why(host.list_dir, "/etc/hosts") == ("/etc/hosts cannot be read: Not a directory", Because.FAILED)
    assert why(host.read, "/etc") == ("/etc is not a regular file", Because.FAILED)


def test_links_are_followed_as_the_node_would() -> None:
    host = FakeHost(
        files={"/opt/cann-8.5.0/aarch64-linux/lib64/libhccl.so": "elf"},
        links={"/opt/cann": "cann-8.5.0", "/opt/cann-8.5.0/lib64": "aarch64-linux/lib64", "/latest": "/opt/cann"},
    )
    assert host.read("/latest/lib64/libhccl.so") == "elf"
    assert host.read_link("/latest") == "/opt/cann"
    assert host.read_link("/latest/lib64") == "aarch64-linux/lib64"
    assert host.read_link("/latest/lib64/libhccl.so") is None
    assert host.list_dir("/latest") == ("aarch64-linux", "lib64")
    assert real_path(host, "/latest/lib64") == "/opt/cann-8.5.0/aarch64-linux/lib64"


def test_a_link_to_nothing_does_not_exist_and_a_circle_ends() -> None:
    host = FakeHost(links={"/gone": "/nowhere", "/a": "/b", "/b": "/a"})
    assert host.exists("/gone") is False
    assert host.read_link("/gone") == "/nowhere"
    assert host.exists("/a") is False
    assert why(host.read, "/a")[1] is Because.FAILED


def test_more_dots_than_folders_stay_at_the_root() -> None:
    host = FakeHost(files={"/etc/passwd": "node's"}, links={"/up": "../../../../etc/passwd"})
    assert host.read("/up") == "node's"
    assert host.read("/../../etc/./passwd") == "node's"


def test_what_the_user_may_not_read_is_a_matter_of_rights() -> None:
    files = {"/var/log/messages": "x", "/home/other/.bashrc": "x"}
    host = FakeHost(
        files=files,
        user=DEV,
        stats={"/var/log/messages": Overlay(mode=0o600), "/home/other": Overlay(kind="dir", mode=0o700, uid=7)},
    )
    assert why(host.read, "/var/log/messages") == ("/var/log/messages cannot be read by dev", Because.NO_RIGHT)
    assert host.stat("/var/log/messages").access == ""
    assert why(host.read, "/home/other/.bashrc")[1] is Because.NO_RIGHT
    assert why(host.exists, "/home/other/.bashrc")[1] is Because.NO_RIGHT
    assert FakeHost(files=files, stats={"/var/log/messages": Overlay(mode=0o600)}).read("/var/log/messages") == "x"


def test_access_comes_from_mode_and_groups_unless_it_is_given() -> None:
    node = Overlay(kind="char", mode=0o660, uid=0, gid=1000)
    host = FakeHost(
        files={"/dev/davinci0": "", "/dev/davinci1": ""},
        stats={"/dev/davinci0": node, "/dev/davinci1": Overlay(kind="char", mode=0o660, access="")},
        user=DEV,
    )
    assert host.stat("/dev/davinci0").access == "rw"
    assert host.stat("/dev/davinci0").kind == "char"
    assert host.stat("/dev/davinci1").access == ""
    stranger = FakeHost(
        files={"/dev/davinci0": ""}, stats={"/dev/davinci0": node}, user=User(name="x", uid=9, gid=9, gids=(9,))
    )
    assert stranger.stat("/dev/davinci0").access == ""


def test_files_and_folders_are_root_s_and_readable_without_word_to_the_contrary() -> None:
    host = FakeHost(files={"/etc/hosts": "127.0.0.1"}, user=DEV)
    file, folder = host.stat("/etc/hosts"), host.stat("/etc")
    assert (file.mode, file.uid, file.access, file.size) == (0o644, 0, "r", 9)
    assert (folder.mode, folder.access) == (0o755, "rx")


def test_a_path_of_which_only_the_rights_are_known_is_there() -> None:
    host = FakeHost(stats={"/root": Overlay(kind="dir", access="")}, user=DEV)
    assert host.exists("/root")
    assert why(host.list_dir, "/root") == ("/root cannot be read by dev", Because.NO_RIGHT)


def test_bytes_that_are_no_utf_8_are_replaced_and_reading_can_be_cut() -> None:
    host = FakeHost(files={"/x": b"a\xffb", "/made": lambda: "new each time"})
    assert host.read("/x") == "a�b"
    assert host.read_bytes("/x", limit=2) == b"a\xff"
    assert host.read("/made") == "new each time"


def test_a_measurement_that_was_not_made_is_not_known() -> None:
    assert FakeHost(measures={"memory": {"total": 1}}).measure("memory") == {"total": 1}
    assert why(FakeHost().measure, "sockets") == ("the bundle holds no sockets", Because.NOT_RECORDED)


def test_variables_may_be_unknown_too() -> None:
    assert FakeHost(environ={"A": "1"}).environ == {"A": "1"}
    host = FakeHost(environ=Unavailable("no job environment"))
    assert why(lambda: host.environ) == ("no job environment", Because.ABSENT)
    assert host.which("npu-smi") is None


# On disk


def test_a_tree_on_disk_never_leads_out_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("this machine's", encoding="utf-8")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "secret").write_text("the node's", encoding="utf-8")
    (root / "etc/up").symlink_to("../../secret")
    (root / "etc/absolute").symlink_to(tmp_path / "secret")
    (root / "etc/passwd").symlink_to("/etc/passwd")
    (root / "out").symlink_to("/")
    tree = FileTree(DiskStore(str(root)), links={"/laid": "/out/secret"})
    assert tree.read_bytes("/etc/up") == b"the node's"
    assert tree.read_bytes("/laid") == b"the node's"
    assert tree.read_bytes("/out/secret") == b"the node's"
    for path in ("/etc/absolute", "/etc/passwd", "/out/etc/passwd"):
        with pytest.raises(OSError, match=r"No such file|Too many levels"):
            tree.read_bytes(path)


def test_pipes_and_devices_on_disk_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    tree = FileTree(DiskStore(str(tmp_path)))
    assert tree.stat("/pipe").kind == "fifo"
    with pytest.raises(OSError, match="not a regular file"):
        tree.read_bytes("/pipe")


parts = st.sampled_from(["a", "b", "c", "..", ".", ""])
paths = st.lists(parts, min_size=1, max_size=6).map("/".join)


@pytest.mark.thorough
@given(links=st.dictionaries(paths.map(lambda path: f"/{path}"), paths, max_size=6), asked=paths)
def test_memory_and_disk_agree_on_every_path(
    links: dict[str, str], asked: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = {"/a/b/c": "1", "/b/a": "2", "/c": "3"}
    root = tmp_path_factory.mktemp("tree")
    for path, text in files.items():
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / path[1:]).write_text(text, encoding="utf-8")
    links = {path: target for path, target in links.items() if target}
    trees = [FileTree(MemoryStore(files), links=links), FileTree(DiskStore(str(root)), links=links)]
    answers: list[tuple[object, object]] = []
    for tree in trees:
        try:
            answers.append((tree.read_bytes("/" + asked), tree.resolve("/" + asked)))
        except OSError as problem:
            answers.append((problem.errno, None))
    assert answers[0] == answers[1]


def test_a_written_file_replaces_a_link_and_belongs_to_the_writer() -> None:
    tree = ChangingTree(
        MemoryStore({"/etc/real": "old", "/home/dev/x": ""}),
        links={"/etc/link": "real"},
        stats={"/etc/real": Overlay(mode=0o600)},
    )
    tree.write("/etc/link", b"new")
    tree.write("/etc/real", b"newer")
    assert (tree.read_link("/etc/link"), tree.read_bytes("/etc/link")) == (None, b"new")
    assert (tree.stat("/etc/real").mode, tree.stat("/etc/link").mode) == (0o600, 0o644)
    tree.write("/etc/tight", b"", mode=0o640)
    assert tree.stat("/etc/tight").mode == 0o640
    assert tree.list_dir("/etc") == ("link", "real", "tight")
    tree.remove("/etc/tight")
    assert tree.list_dir("/etc") == ("link", "real")
    with pytest.raises(FileNotFoundError):
        tree.write("/no/such/folder", b"")
    with pytest.raises(FileNotFoundError):
        tree.remove("/etc/tight")


def test_an_ordinary_user_writes_where_the_rights_allow_it() -> None:
    tree = ChangingTree(
        MemoryStore({"/etc/hosts": "", "/home/dev/.bashrc": ""}),
        stats={"/home/dev": Overlay(kind="dir", mode=0o700, uid=1005, gid=1005)},
        user=DEV,
    )
    tree.write("/home/dev/.profile", b"x")
    assert (tree.stat("/home/dev/.profile").uid, tree.stat("/home/dev/.profile").access) == (1005, "rw")
    with pytest.raises(PermissionError):
        tree.write("/etc/hosts", b"")
    with pytest.raises(PermissionError):
        tree.remove("/etc/hosts")


def test_a_recording_on_disk_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Read-only"):
        ChangingTree(DiskStore(str(tmp_path))).write("/x", b"")
    assert not list(tmp_path.iterdir())

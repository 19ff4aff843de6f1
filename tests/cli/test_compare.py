"""`npudoctor compare`: the odd one out is named first, what is a node's own is no difference."""

import gzip
import importlib
import json
import pkgutil
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor import facts, sim
from npudoctor.cli.compare import read
from npudoctor.compare import features
from npudoctor.facts.python.imports import ImportAttempt, TorchImport
from tests.cli.conftest import Command, Ran

Change = Callable[[Path], None]


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file in place."""
    said = json.loads(path.read_text(encoding="utf-8"))
    change(said)
    path.write_text(json.dumps(said), encoding="utf-8")


def older_driver(folder: Path) -> None:
    path = folder / "root/usr/local/Ascend/driver/version.info"
    path.write_text(re.sub(r"(?m)^Version=.*$", "Version=22.0.4", path.read_text(encoding="utf-8")), encoding="utf-8")


def ports_not_reserved(folder: Path) -> None:
    (folder / "root/proc/sys/net/ipv4/ip_local_reserved_ports").write_text("\n", encoding="utf-8")


def another_timeout(folder: Path) -> None:
    edit(folder / "environ.json", lambda environ: environ.update(HCCL_CONNECT_TIMEOUT="7200"))


def tls_on_card_3(folder: Path) -> None:
    path = folder / "commands/hccn_tool -i 3 -tls -g/stdout"
    path.write_text(path.read_text(encoding="utf-8").replace("tls switch[0]", "tls switch[1]"), encoding="utf-8")


def its_own(number: int) -> Change:
    """What every node has of its own: name, address, free memory, serial numbers, temperatures, processes."""

    def change(folder: Path) -> None:
        edit(folder / "bundle.json", lambda said: said.update(hostname=f"worker-{number}"))

        def measures(said: Any) -> None:
            for interface in said["interfaces"]:
                interface["addresses"] = [
                    address.replace("192.168.10.41", f"192.168.10.{number}") for address in interface["addresses"]
                ]
            said["memory"]["available"] -= number << 30
            for row in said["processes"]:
                row["create_time"] += number

        edit(folder / "host.json", measures)
        for page in (folder / "commands").glob("npu-smi info -t board*"):
            text = (page / "stdout").read_text(encoding="utf-8")
            (page / "stdout").write_text(text.replace("1023C", f"10{number:02}D"), encoding="utf-8")

    return change


def test_an_import_that_is_tried_only_after_a_failure_is_no_difference_of_its_own() -> None:
    failed = TorchImport(ImportAttempt(what="torch", ok=False), ImportAttempt(what="torch", ok=True, version="2.5.1"))
    told, _ = features.of_facts({"python.torch_import": failed})
    assert told
    assert not [feature.title for feature in told if "alone" in feature.title]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A bundle of a scenario, written once."""
    folder = tmp_path_factory.mktemp("recorded")

    def bundle(name: str) -> Path:
        if not (folder / name).exists():
            sim.write_bundle(sim.simulate(name), str(folder / name))
        return folder / name

    return bundle


@pytest.fixture
def nodes(recorded: Callable[[str], Path], tmp_path: Path) -> Callable[..., list[str]]:
    """Bundles in a folder of their own, each of a scenario with its changes."""

    def make(*wanted: tuple[str, Change | None]) -> list[str]:
        paths = []
        for number, (name, change) in enumerate(wanted):
            path = tmp_path / f"node-{number:03}"
            shutil.copytree(recorded(name), path)
            its_own(number)(path)
            if change:
                change(path)
            paths.append(str(path))
        return paths

    return make


def odd(said: Ran) -> dict[str, dict[str, tuple[str, str]]]:
    """The odd nodes of a comparison as JSON, each with its differences: value and expectation."""
    return {
        Path(one["path"]).name: {
            difference["title"]: (", ".join(difference["value"]), ", ".join(difference["expected"]))
            for difference in one["differences"]
        }
        for one in said.json["odd"]
    }


def test_nodes_that_differ_only_in_what_is_their_own_are_alike(
    npudoctor: Command, nodes: Callable[..., list[str]]
) -> None:
    said = npudoctor("compare", *nodes(*[("seed-910b1", None)] * 3))
    assert (said.code, said.out, said.err) == (0, "No differences between 3 nodes.\n", "")


@pytest.mark.parametrize(
    ("change", "title", "value", "expected"),
    [
        (older_driver, "driver package", "22.0.4", "24.1.rc1"),
        (ports_not_reserved, "reserved ports", "", "60000-60031"),
        (another_timeout, "variable HCCL_CONNECT_TIMEOUT", "7200", ""),
        (tls_on_card_3, "TLS switch", "7 × 0, 1 × 1", "8 × 0"),
    ],
)
def test_the_odd_one_out_is_named_in_the_first_line_with_what_is_odd(
    npudoctor: Command, nodes: Callable[..., list[str]], change: Change, title: str, value: str, expected: str
) -> None:
    paths = nodes(("seed-910b1", None), ("seed-910b1", change), ("seed-910b1", None))
    said = npudoctor("compare", *paths)
    assert said.code == 1
    assert said.out.splitlines()[0] == (f"1 of 3 nodes differs: worker-1 ({title}: {value or 'none'}).")
    assert f"  {title}: {value or 'none'}, not {expected or 'none'}\n" in said.out
    found = odd(npudoctor("compare", "--json", *paths))
    assert list(found) == ["node-001"]
    assert found["node-001"][title] == (value, expected)


def test_the_majority_decides_whoever_comes_first(npudoctor: Command, nodes: Callable[..., list[str]]) -> None:
    wanted = [("seed-910b1", ports_not_reserved)] * 2 + [("seed-910b1", None)] * 3
    assert list(odd(npudoctor("compare", "--json", *nodes(*wanted)))) == ["node-000", "node-001"]


def test_each_kind_of_node_has_its_own_norm(npudoctor: Command, nodes: Callable[..., list[str]]) -> None:
    kinds = ("seed-910b1", "healthy-910a", "duo-310p")
    changes = {5: older_driver, 7: ports_not_reserved}
    wanted = [(kinds[number % 3], changes.get(number)) for number in range(12)]
    said = npudoctor("compare", *nodes(*wanted))
    first = said.out.splitlines()[0]
    assert first.startswith("2 of 12 nodes differ: worker-5 (driver package: 22.0.4), worker-7")
    assert "3 groups of nodes:" in said.out
    assert "  4 nodes: 8 × 910B1, driver 24.1.rc1, CANN 7.0.0, torch_npu 2.1.0\n" in said.out


def test_a_node_that_is_of_another_kind_is_odd(npudoctor: Command, nodes: Callable[..., list[str]]) -> None:
    said = npudoctor("compare", *nodes(*[("seed-910b1", None)] * 3, ("healthy-910a", None)))
    assert said.out.splitlines()[0] == "1 of 4 nodes differs: worker-3 (NPUs: 8 × 910A)."


def test_of_two_nodes_none_is_odd(npudoctor: Command, nodes: Callable[..., list[str]]) -> None:
    said = npudoctor("compare", *nodes(("seed-910b1", ports_not_reserved), ("seed-910b1", None)))
    lines = said.out.splitlines()
    assert (said.code, lines[0]) == (1, "worker-0 and worker-1 differ in 2 values.")
    assert lines[3:6] == ["  reserved ports", "    none: worker-0", "    60000-60031: worker-1"]


def test_halves_are_two_groups_and_nobody_is_odd(npudoctor: Command, nodes: Callable[..., list[str]]) -> None:
    said = npudoctor("compare", *nodes(*[("seed-910b1", None)] * 2, *[("seed-910b1", another_timeout)] * 2))
    assert said.code == 1
    assert said.out.splitlines()[0] == "4 nodes differ in 1 value; no single outlier."


def test_against_a_golden_node_everybody_is_measured(npudoctor: Command, nodes: Callable[..., list[str]]) -> None:
    paths = nodes(*[("seed-910b1", another_timeout)] * 2, ("seed-910b1", None))
    said = npudoctor("compare", "--golden", paths[2], *paths[:2])
    assert said.out.startswith("Different from worker-2: worker-0 (variable HCCL_CONNECT_TIMEOUT: 7200)")
    like = npudoctor("compare", "--golden", paths[0], paths[1])
    assert (like.code, like.out) == (0, "No differences: 1 node compared with worker-0.\n")


def test_recordings_folders_and_reports_can_be_mixed(
    npudoctor: Command, nodes: Callable[..., list[str]], tmp_path: Path
) -> None:
    folder, sick = nodes(("sick-cards", None), ("sick-cards", ports_not_reserved))
    archive, report = str(tmp_path / "node.tar.gz"), tmp_path / "report.json"
    assert npudoctor("record", "--replay", folder, archive).code == 0
    report.write_text(npudoctor("check", "--json", "--replay", folder).out, encoding="utf-8")
    assert npudoctor("compare", folder, archive, str(report)).out == "No differences between 3 nodes.\n"
    said = npudoctor("compare", folder, archive, str(report), sick)
    assert said.out.startswith("1 of 4 nodes differs:")
    assert list(odd(npudoctor("compare", "--json", folder, archive, str(report), sick))) == ["node-001"]


def test_what_a_node_does_not_tell_is_no_difference(npudoctor: Command, nodes: Callable[..., list[str]]) -> None:
    def without_cards(folder: Path) -> None:
        edit(folder / "bundle.json", lambda said: said.update(unrecorded="unknown"))
        for page in (folder / "commands").glob("hccn_tool*"):
            shutil.rmtree(page)

    said = npudoctor("compare", *nodes(("seed-910b1", None), ("seed-910b1", None), ("seed-910b1", without_cards)))
    assert (said.code, said.out) == (0, "No differences between 3 nodes.\n")


def test_the_same_nodes_give_the_same_words(npudoctor: Command, nodes: Callable[..., list[str]]) -> None:
    paths = nodes(*[("seed-910b1", None)] * 2, ("seed-910b1", older_driver))
    assert npudoctor("compare", "--json", *paths).out == npudoctor("compare", "--json", *paths).out


def test_a_fact_that_nobody_foresaw_joins_by_itself() -> None:
    from npudoctor.compare import features
    from npudoctor.compare import groups as compare
    from npudoctor.facts.system.limits import Limit, Limits

    def node(name: str, soft: int) -> features.Node:
        told, known = features.of_facts(
            {"new.fact": {"0": Limits(nofile=Limit(soft, 9)), "1": Limits(nofile=Limit(7, 9))}}
        )
        return features.Node(path=name, features=told, known=known)

    found = compare.compare([node("a", 7), node("b", 7), node("c", 5)])
    (one,) = found.odd
    assert [(d.feature.title, d.value, d.expected) for d in one.differences] == [
        ("new.fact: nofile.soft", ("5", "7"), ("2 × 7",))
    ]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.json", b"{}", "must be a recording or a report"),
        ("x.json", b"\xff\x00binary", "must be a recording or a report"),
        ("x.tar.gz", gzip.compress(b"no tar" * 200, mtime=0), "is not a .tar.gz that can be read"),
        ("nothing", None, "bundle not found"),
    ],
)
def test_what_is_no_node_is_said_in_one_line(
    npudoctor: Command, recorded: Callable[[str], Path], tmp_path: Path, name: str, content: bytes | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = npudoctor("compare", str(recorded("bare-host")), str(tmp_path / name))
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert expected in said.err


def test_one_node_alone_is_compared_with_nothing(npudoctor: Command, recorded: Callable[[str], Path]) -> None:
    said = npudoctor("compare", str(recorded("bare-host")))
    assert (said.code, said.err) == (
        2,
        "npudoctor: compare requires two nodes or more, or one node and --golden NODE\n",
    )


def test_many_recordings_are_read_by_several_processes(process: Command, nodes: Callable[..., list[str]]) -> None:
    paths = nodes(*[("bare-host", None)] * 12, ("bare-host", another_timeout))
    said = process("compare", *paths)
    assert said.out.startswith("1 of 13 nodes differs: worker-12"), said.err
    (Path(paths[7]) / "bundle.json").write_text("{", encoding="utf-8")
    broken = process("compare", *paths)
    assert (broken.code, broken.err.count("\n")) == (2, 1)
    assert "node-007/bundle.json is not valid JSON" in broken.err


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True], ids=["folders", "archives"])
def test_two_hundred_recordings_are_compared_within_ten_seconds(
    process: Command, npudoctor: Command, nodes: Callable[..., list[str]], tmp_path: Path, packed: bool
) -> None:
    kinds = ("seed-910b1", "healthy-a3", "healthy-910a", "in-service", "duo-310p")
    changes = {17: older_driver, 99: ports_not_reserved, 150: another_timeout}
    paths = nodes(*[(kinds[number % 5], changes.get(number)) for number in range(200)])
    if packed:
        for number, path in enumerate(paths):
            paths[number] = f"{path}.tar.gz"
            npudoctor("record", "--replay", path, paths[number])
    started = time.monotonic()
    said = process("compare", *paths)
    took = time.monotonic() - started
    print(f"200 nodes, {'archives' if packed else 'folders'}: {took:.1f} s")
    first = said.out.splitlines()[0]
    assert first.startswith("3 of 200 nodes differ: worker-17 (driver package:")
    assert "worker-99 (reserved ports: none)" in first
    assert "worker-150 (variable HCCL_CONNECT_TIMEOUT: 7200)." in first
    assert took < 10


def test_a_recording_tells_versions_variables_settings_links_and_findings(recorded: Callable[[str], Path]) -> None:
    told = {feature.title for feature in read(str(recorded("new-node"))).features}
    assert {"driver version", "firmware of the NPUs", "CANN", "operators of CANN", "package torch"} <= told
    assert {"package torch-npu", "Python", "kernel", "operating system", "ephemeral ports", "TLS switch"} <= told
    assert {"link of the NPUs", "IP family of the host", "NPUs", "memory per chip"} <= told
    assert {"finding cann.environment", "finding hccl.ports-reserved"} <= told


LIKE_A_MOMENT_OR_A_DEVICE = re.compile(
    r"(?:^|_)(?:pids?|ppid|temp|power|free|available|used|usage|util|pct|seconds?|time|mtime|since|date|serial|sn|uuid"
    r"|mac|die|vdie|bus|slot|slots|counts?|num|errors?|records|hostname|why|reason|text|detail|lines?|seen|subjects?"
    r"|cur|load|rdev|size|chassis|ifname|ifnames|failed)(?:_|$)"
    r"|^(?:(?:npu|chip|dev|device|phy|logic|card)_)?ids?$|^devid$"
)
THE_SAME_ON_TWINS = {
    *("aicore_count", "by_subject", "chip_count", "default_shm_size", "device_count", "flash_count", "max_frame_size"),
    *("pids_max", "rated_power_w", "super_pod_size", "world_size"),
}


def fields_of_facts() -> set[str]:
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(facts.__path__, "npudoctor.facts.")]
    records = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    return {name for one in records for name in getattr(one, "__dataclass_fields__", ())}


def test_a_new_field_that_may_differ_between_twins_is_listed() -> None:
    named = {name for name in fields_of_facts() if LIKE_A_MOMENT_OR_A_DEVICE.search(name)}
    assert not named - (features._INDIVIDUAL | THE_SAME_ON_TWINS)
    assert not features._INDIVIDUAL & THE_SAME_ON_TWINS


def test_a_field_that_is_not_compared_exists() -> None:
    assert fields_of_facts() >= features._INDIVIDUAL - {"hostname"}

"""Which sysctl file has the last word."""

from __future__ import annotations

import pytest

from npudoctor.facts.system import sysctl
from npudoctor.findings import Because
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sdk import Unavailable, User

KEY = "net.ipv4.ip_local_reserved_ports"


def test_files_are_read_by_name_whatever_their_folder_and_sysctl_conf_last() -> None:
    found = sysctl.order(
        [
            ("/etc/sysctl.d", ["99-a.conf", "10-x.conf", "README"]),
            ("/usr/lib/sysctl.d", ["50-b.conf", "10-x.conf"]),
        ]
    )
    assert found == (
        "/etc/sysctl.d/10-x.conf",
        "/usr/lib/sysctl.d/50-b.conf",
        "/etc/sysctl.d/99-a.conf",
        "/etc/sysctl.conf",
    )


def test_a_file_in_etc_hides_the_one_of_the_same_name() -> None:
    host = FakeHost(
        files={
            "/etc/sysctl.d/60-hccl.conf": f"{KEY} = 60000-60031\n",
            "/usr/lib/sysctl.d/60-hccl.conf": f"{KEY} = 1-2\n",
        }
    )
    assert [setting.value for setting in sysctl.sysctl_files(host).of(KEY)] == ["60000-60031"]


def test_the_last_assignment_is_in_force() -> None:
    host = FakeHost(
        files={
            "/etc/sysctl.d/60-hccl.conf": f"{KEY} = 60000-60031\n",
            "/etc/sysctl.conf": f"# {KEY} = 1\n; {KEY} = 2\n\n{KEY}=61000\n",
        }
    )
    last = sysctl.sysctl_files(host).of(KEY)[-1]
    assert (last.path, last.line_number, last.value) == ("/etc/sysctl.conf", 4, "61000")


@pytest.mark.parametrize(
    "line",
    [
        "net.ipv4.ip_local_reserved_ports=5",
        "net/ipv4/ip_local_reserved_ports = 5",
        "-net.ipv4.ip_local_reserved_ports=5",
    ],
)
def test_every_spelling_of_a_key_is_the_same_key(line: str) -> None:
    assert [(one.key, one.value) for one in sysctl.parse(line, "/x")] == [(KEY, "5")]


def test_a_dot_in_the_name_of_an_interface_survives_slashes() -> None:
    assert sysctl.canonical_key("net/ipv4/conf/eth0.1/rp_filter") == "net.ipv4.conf.eth0/1.rp_filter"


def test_a_key_alone_assigns_nothing() -> None:
    assert sysctl.parse("-net.ipv4.conf.all.rp_filter\n", "/x") == ()


def test_a_file_that_links_to_dev_null_assigns_nothing() -> None:
    host = FakeHost(files={"/usr/lib/sysctl.d/50-a.conf": f"{KEY}=5\n"}, links={"/etc/sysctl.d/50-a.conf": "/dev/null"})
    assert sysctl.sysctl_files(host).settings == ()


def test_a_file_that_may_not_be_read_is_named() -> None:
    host = FakeHost(
        files={"/etc/sysctl.d/50-a.conf": f"{KEY}=5\n"},
        stats={"/etc/sysctl.d/50-a.conf": Overlay(mode=0o600, access="")},
        user=User(name="dev", uid=1000, gid=1000, gids=(1000,), groups=("dev",)),
    )
    assert sysctl.sysctl_files(host).unreadable == ("/etc/sysctl.d/50-a.conf",)


def test_a_folder_that_was_not_recorded_leaves_the_answer_open() -> None:
    with pytest.raises(Unavailable) as why:
        sysctl.sysctl_files(FakeHost(unrecorded="unknown"))
    assert why.value.because is Because.NOT_RECORDED

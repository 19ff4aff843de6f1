"""Which releases go together, as far as the tables say."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor import knowledge
from npudoctor.facts import versions
from npudoctor.facts.python.published_releases import is_too_old
from npudoctor.knowledge.pairs import Confidence, Fit
from npudoctor.knowledge.patterns import canonical_version, covers, train


def plain(pattern: str) -> str:
    return pattern.removesuffix(".X") + (".0" if pattern.endswith(".X") else "")


def test_every_version_text_is_understood() -> None:
    table = knowledge.compatibility()
    for release in table.releases:
        versions.TorchNpuVersion.parse(release.version)
        versions.TorchNpuVersion.parse(release.torch)
        for cann in (*release.cann, *release.cann_seen, *map(plain, release.cann_guess)):
            versions.CannVersion.parse(cann)
    for window in table.windows:
        assert all(map(versions.CannVersion.parse, map(plain, window.cann_ok)))
    for support in table.hdk_support:
        versions.CannVersion.parse(support.cann)
        assert all(
            versions.DriverVersion.parse(plain(driver))
            for driver in (*support.paired, *support.compatible, *support.incompatible)
        )
    for pair in knowledge.combinations().driver_firmware:
        versions.DriverVersion.parse(pair.driver)
        for firmware in (pair.firmware, *(pair.firmware_range or ())):
            assert firmware is None or versions.FirmwareVersion.parse(firmware)
    for stack in knowledge.combinations().stacks:
        versions.CannVersion.parse(stack.cann)
        assert table.release(stack.torch_npu), f"{stack.vllm_ascend} uses an unknown torch_npu {stack.torch_npu}"


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("cann", versions.CannVersion),
        ("driver", versions.DriverVersion),
        ("pta_release", versions.DriverVersion),
        ("firmware", versions.FirmwareVersion),
    ],
)
def test_versions_rise_in_the_published_order(kind: str, version: type[versions.Version]) -> None:
    parsed = [version.parse(text) for text in knowledge.compatibility().orders[kind]]
    assert all(one < other for one, other in itertools.pairwise(parsed))


def test_two_spellings_of_one_cann_are_one_cann() -> None:
    for one, other in knowledge.compatibility().same_cann:
        assert canonical_version(one) == canonical_version(other)
        assert versions.CannVersion.parse(one) == versions.CannVersion.parse(other)


def test_releases_stand_newest_first() -> None:
    torches = [versions.TorchNpuVersion.parse(release.torch) for release in knowledge.compatibility().releases]
    misprint = versions.TorchNpuVersion.parse("1.8.1"), versions.TorchNpuVersion.parse("1.5.0")
    kept = [
        torch for place, torch in enumerate(torches) if not (torch == misprint[0] and misprint[1] in torches[:place])
    ]
    assert kept == sorted(kept, reverse=True)
    assert len(kept) == len(torches) - 1


@pytest.mark.parametrize(
    ("pattern", "version", "meant"),
    [
        ("8.5.X", "8.5.2", True),
        ("8.5.X", "8.50.0", False),
        ("8.3.RC1", "8.3.rc1", True),
        ("8.3.RC1", "8.3.RC1.alpha001", False),
        ("8.0.RC2", "8.0.RC2.beta1", True),
        ("8.0.0", "8.0.0.beta1", True),
        ("9.1.0", "9.1.0-beta.3", False),
        ("24.1.0", "24.1.0.3", True),
        ("25.0.RC1", "25.0.rc1.1", True),
        ("24.1.RC3", "24.1.rc3.b999", True),
        ("25.5.1", "25.5.10", False),
        ("8.0.X", "8.0.T6", False),
    ],
)
def test_a_table_s_entry_means_a_version_its_patches_and_nothing_else(pattern: str, version: str, meant: bool) -> None:
    assert covers(pattern, version) is meant


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_upsets_the_version_patterns(one: str, other: str) -> None:
    table = knowledge.compatibility()
    assert covers(one, one) or train(one) is not None or one.upper() != one
    assert isinstance(covers(one, other), bool)
    assert table.release("no " + one) is None
    assert table.hdk("no " + one) is None


@pytest.mark.parametrize(
    ("torch_npu", "cann", "fit"),
    [
        ("2.7.1.post2", "8.5.0", Fit.PAIRED),
        ("2.12.0.post2", "9.1.7", Fit.PAIRED),  # the table names the range 9.1.X
        ("2.7.1", "8.3.RC2", Fit.SEEN),
        ("2.7.1", "8.0.0", Fit.COMPATIBLE),
        ("2.7.1", "9.0.0-beta.2", Fit.OUTSIDE),
        ("2.7.1.post1", "8.2.RC1", Fit.COMPATIBLE),  # its train is 7.2.x
        ("2.9.0.post4", "8.3.RC2", Fit.COMPATIBLE),  # a later candidate of a train in the window of 26.0.X
        ("2.9.0.post2", "8.0.0", Fit.OUTSIDE),
        ("2.10.0.post4", "8.5.1", Fit.COMPATIBLE),
        ("2.9.1", "9.1.1", Fit.EXPECTED),
        ("2.14.0", "9.2.0", Fit.PAIRED),
        ("2.14.0", "9.1.1", Fit.COMPATIBLE),
        ("2.14.0", "8.3.RC1", Fit.OUTSIDE),
        ("2.10.0", "9.2.0", Fit.COMPATIBLE),
        ("2.10.0", "9.3.0", Fit.UNKNOWN),  # newer than the tables
        ("2.1.0.post17", "8.5.0", Fit.PAIRED),  # with MindIE 2.3.0
        ("2.1.0.post11", "8.0.0", Fit.PAIRED),
        ("2.4.0.post3", "8.1.RC1", Fit.COMPATIBLE),
        ("2.10.0", "8.1.T6", Fit.UNKNOWN),  # a test build
        ("2.3.1", "8.0.RC2", Fit.PAIRED),
        ("2.3.1", "8.5.0", Fit.UNPAIRED),  # 6.0.rc2: older than the windows
    ],
)
def test_torch_npu_and_cann_fit_as_published(torch_npu: str, cann: str, fit: Fit) -> None:
    table = knowledge.compatibility()
    release = table.release(torch_npu)
    assert release
    assert table.judge(release, cann) is fit


def test_a_post_release_is_a_release_of_its_own() -> None:
    table = knowledge.compatibility()
    plain, post = table.release("2.7.1"), table.release("2.7.1.post4")
    assert plain and post
    assert (plain.cann, post.cann) == (("8.3.RC1",), ("9.0.0",))
    assert table.release("2.7.1.post3") is None
    assert table.release(" 2.7.1.POST4+git1234567 ") is post
    local = table.release("2.9.0.post1+git4c901a4")
    assert local and local.cann == ("8.5.1",)
    assert [each.version for each in table.releases_for_torch("2.5.1+cpu")][-1] == "2.5.1rc1"


def test_every_published_pair_fits_itself() -> None:
    table = knowledge.compatibility()
    pairs = [(release, cann) for release in table.releases for cann in release.cann]
    assert len(pairs) > 80
    assert all(table.judge(release, cann) is Fit.PAIRED for release, cann in pairs)


@pytest.mark.parametrize(
    ("cann", "python", "best"),
    [
        ("9.1.0", "3.11", "2.12.0.post2"),
        ("9.0.0", "3.9", "2.8.0.post4"),
        ("8.5.0", "3.11", "2.9.0"),
        ("8.5.0", "3.9", "2.8.0.post2"),
        ("8.3.RC1", "3.10", "2.8.0"),
        ("8.0.RC3", "3.10", "2.4.0"),
        ("7.0.0", "3.9", "2.1.0"),
    ],
)
def test_the_best_release_for_a_cann_is_maintained_official_and_installable(cann: str, python: str, best: str) -> None:
    advised = knowledge.compatibility().releases_for_cann(cann, python=python)
    assert advised[0].version == best


@pytest.mark.thorough
def test_advice_never_names_a_release_that_is_bad_or_has_no_wheel() -> None:
    table = knowledge.compatibility()
    for cann in table.orders["cann"]:
        for python in ("3.8", "3.9", "3.11", "3.12.4", "3.13"):
            for release in table.releases_for_cann(cann, python=python):
                assert release.supports_python(python) is not False
                assert not table.known_bad(release.version, python=python, cann=cann)
                assert table.judge(release, cann).is_good
    assert table.releases_for_cann("42.0.0") == ()


def test_wheels_say_which_python_and_glibc_they_need() -> None:
    table = knowledge.compatibility()
    old, new, unknown = table.release("2.5.1"), table.release("2.6.0"), table.release("2.6.0.post6")
    assert old and new and unknown
    assert old.supports_python("3.12") is False
    assert old.supports_python("3.11.9") is True
    assert old.supports_python("3.1") is False
    assert unknown.supports_python("3.10") is True, "from the project's own range"
    assert unknown.supports_python("3.12") is False
    assert (old.glibc_floor("aarch64"), new.glibc_floor("aarch64"), new.glibc_floor("x86_64")) == (
        (2, 17),
        (2, 28),
        (2, 17),
    )
    assert unknown.glibc_floor("x86_64") is None
    assert new.requires("x86_64") == ("torch==2.6.0+cpu",)
    unpinned = table.release("2.1.0")
    assert unpinned and unpinned.requires("x86_64") == (), "the wheel names no torch at all"
    assert unpinned.requires("aarch64") is None


def test_known_defects_show_only_where_they_bite() -> None:
    table = knowledge.compatibility()
    assert [defect.pitfall for defect in table.known_bad("2.12.0", python="3.12.1")] == ["P040"]
    assert table.known_bad("2.12.0", python="3.11") == ()
    assert table.known_bad("2.12.0") == ()
    assert table.known_bad("2.12.0.post2", python="3.13") == ()
    assert [defect.id for defect in table.known_bad("2.7.1", python="3.11", cann="9.0.0-beta.2")] == ["P012"]
    for defect in table.known_bad_releases:
        for bad, better in defect.fixed_in.items():
            assert table.release(bad) and table.release(better), f"{bad} or {better} is in no row"
            assert versions.TorchNpuVersion.parse(bad) < versions.TorchNpuVersion.parse(better)


OF_THE_950 = {"1.0.RC1", "25.1.RC1", "25.6.RC1"}
"""Drivers of products with Ascend 950 alone: no other driver is judged by their order."""


def test_a_driver_of_the_950_is_not_too_old_for_the_cann_that_it_was_published_with() -> None:
    table = knowledge.compatibility()
    for cann, driver in (("9.0.0", "1.0.RC1"), ("9.1.0", "25.1.RC1"), ("9.1.1", "25.6.RC1")):
        support = table.hdk(cann)
        assert support
        assert not is_too_old(driver, support)
    for cann, driver in (("9.1.0", "24.1.0"), ("9.0.0", "24.1.0")):
        support = table.hdk(cann)
        assert support
        assert is_too_old(driver, support)


def test_drivers_are_judged_by_the_lists_of_the_cann() -> None:
    support = knowledge.compatibility().hdk("9.1.0")
    assert support
    assert support.judge("25.0.rc1.1") is Fit.OUTSIDE
    assert support.judge("26.0.rc1") is Fit.PAIRED
    assert support.judge("25.5.2") is Fit.COMPATIBLE
    assert support.judge("24.1.0") is Fit.UNKNOWN, "older than the list: the order decides, not the text"
    assert support.oldest_compatible == "25.2.X"
    assert knowledge.compatibility().hdk("8.0.0.beta1") is knowledge.compatibility().hdk("8.0.0")
    assert knowledge.compatibility().hdk("8.4.0") is None
    for each in knowledge.compatibility().hdk_support:
        trains = [train(entry) for entry in each.compatible if entry not in OF_THE_950]
        assert not trains or trains[0] == min(filter(None, trains)), f"{each.cann}: the oldest is not first"


def test_a_cann_supports_a_range_of_pythons() -> None:
    table = knowledge.compatibility()
    old, new = table.python("8.2.rc1"), table.python("9.0.1")
    assert old and new
    assert (old.supports("3.11.9"), old.supports("3.12"), new.supports("3.13"), new.supports("3.14")) == (
        True,
        False,
        True,
        False,
    )
    assert old.numpy == ">=1.19.2,<=1.24.0"
    assert table.python("8.0.0") is None


def test_confidence_is_explained_in_words() -> None:
    table = knowledge.compatibility()
    assert {confidence.value for confidence in Confidence} == set(table.confidence_levels)
    line = table.lifecycle("2.6.0+cpu")
    assert line and (line.status, line.next, line.next_from) == ("maintenance", "eol", "2027-01-25")

"""Who could change what lies at a path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor.host.live.trust import foreign_writer
from tests.plain_user import ALICE, BOB, NAMES, accounts_missing, as_root, give, run_as, with_accounts


def _file(folder: Path, *parts: str) -> Path:
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("", encoding="utf-8")
    return path


def test_what_only_this_user_can_write_has_no_foreign_writer(open_folder: Path) -> None:
    assert foreign_writer(str(_file(open_folder, "a", "b"))) is None


def test_a_missing_file_counts_for_the_folders_above_it(open_folder: Path) -> None:
    assert foreign_writer(str(open_folder / "not" / "there")) is None


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o666 | 0o100])
def test_what_everybody_can_write_is_named(open_folder: Path, mode: int) -> None:
    path = _file(open_folder, "a", "b")
    path.parent.chmod(mode)
    found = foreign_writer(str(path))
    assert found is not None
    assert (found.path, found.uid) == (str(path.parent), None)


@as_root
def test_an_entry_of_root_below_a_sticky_folder_is_trusted_and_one_of_another_user_is_not(open_folder: Path) -> None:
    mine, hers = _file(open_folder, "sticky", "mine"), _file(open_folder, "sticky", "hers")
    mine.parent.chmod(0o1777)
    give(hers, ALICE)
    assert foreign_writer(str(mine)) is None
    found = foreign_writer(str(hers))
    assert found is not None
    assert found.uid == ALICE


@as_root
def test_a_link_of_another_user_is_named_wherever_it_leads(open_folder: Path) -> None:
    link = open_folder / "link"
    link.symlink_to("/etc/passwd")
    os.chown(link, BOB, BOB, follow_symlinks=False)
    found = foreign_writer(str(link))
    assert found is not None
    assert (found.path, found.uid) == (str(link), BOB)


@as_root
def test_a_link_of_root_is_as_good_as_what_it_leads_to(open_folder: Path) -> None:
    hers = give(_file(open_folder, "home", "python"), ALICE)
    link = open_folder / "python"
    link.symlink_to("home/../home/python")
    found = foreign_writer(str(link))
    assert found is not None
    assert (found.path, found.uid) == (str(hers), ALICE)


@as_root
def test_a_group_with_the_right_to_write_is_a_foreign_writer_unless_it_is_roots(open_folder: Path) -> None:
    path = _file(open_folder, "file")
    path.chmod(0o664)
    assert foreign_writer(str(path)) is None
    os.chown(path, 0, ALICE)
    assert foreign_writer(str(path)) is not None


def test_a_link_that_leads_to_itself_is_named(open_folder: Path) -> None:
    link = open_folder / "link"
    link.symlink_to(link)
    found = foreign_writer(str(link))
    assert found is not None
    assert "leads nowhere" in found.reason


@as_root
def test_in_a_user_namespace_the_hosts_root_is_trusted_and_other_users_are_not(open_folder: Path) -> None:
    give(hers := _file(open_folder, "hers"), ALICE)
    said = (
        "import sys; from npudoctor.host.live.trust import foreign_writer; "
        "print([foreign_writer(path) is None for path in sys.argv[1:]])"
    )
    roots = _file(open_folder, "roots")
    argv = ["unshare", "--user", sys.executable, "-c", said, str(roots), str(hers)]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        pytest.skip(f"no user namespace here: {done.stderr.strip()}")
    # Neither owner is mapped, so both read alike; what only its owner can write counts as the host's.
    assert done.stdout.strip() == "[True, True]"


@as_root
def test_the_accounts_of_a_test_stand_in_its_own_namespace_alone(open_folder: Path) -> None:
    if missing := accounts_missing():
        pytest.skip(missing)
    name = NAMES[ALICE]
    argv = with_accounts(["su", "-", name, "-c", "id -un; pwd"], open_folder)
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False)
    assert done.stdout.split("\n")[:2] == [name, str(open_folder / "home" / name)]
    assert name not in Path("/etc/passwd").read_text(encoding="utf-8")
    assert run_as(ALICE, ["id", "-u"]).stdout.strip() == str(ALICE)

"""Takes an archive of `npudoctor validate` in as samples: `python -m tests.facts.take_in ARCHIVE NAME`.

For each kind of output it writes data/KIND/NAME.txt, the first output of that kind, and data/KIND/NAME.json, what the
parser says of it: compare every value with the text by hand before the commit, because the tests believe this file.
An output that no parser reads is listed and not written; what the tool refused is neither. Existing files stay.
"""

import argparse
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npudoctor.cli.validation_rows import is_refusal, kind_of
from npudoctor.facts.parsers import KINDS
from npudoctor.host import ParseError
from npudoctor.host.recording.recorded_node import SLASH

DATA = Path(__file__).parent / "data"


def main(argv: list[str] | None = None) -> int:
    """Write the samples; 1 where an output could not be read."""
    parser = argparse.ArgumentParser(prog="python -m tests.facts.take_in", description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("name", help="name of the samples, such as a product and a release: 910B3-25.2.0")
    parser.add_argument("--into", type=Path, default=DATA, metavar="DIR")
    args = parser.parse_args(argv)
    taken: set[str] = set()
    unread = []
    for key, text in outputs(args.archive):
        kind = kind_of(key)
        if kind is None or kind in taken:
            continue
        try:
            said = without_nulls(KINDS[kind](text))
        except ParseError as problem:
            if text.strip() and not is_refusal(kind, text):
                unread.append(f"not read: {key}: {problem}")
            continue
        taken.add(kind)
        path = args.into / kind / f"{args.name}.txt"
        if path.exists():
            print(f"exists: {path}")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.with_suffix(".json").write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: compare {path.with_suffix('.json').name} with it")
    print(*unread, sep="\n", end="\n" if unread else "")
    return 1 if unread else 0


def outputs(archive: Path) -> Iterator[tuple[str, str]]:
    """The key of each recorded command, and what it printed."""
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = member.name.split("/")
            if parts[1:2] == ["commands"] and parts[-1] == "stdout" and (file := tar.extractfile(member)):
                yield parts[2].replace(SLASH, "/"), file.read().decode("utf-8", "replace")


def without_nulls(value: Any) -> Any:
    """A value without what it does not say."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())

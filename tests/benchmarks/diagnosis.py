"""Print how good the diagnosis is: over the labelled nodes of this repository, and those beside it.

    python tests/benchmarks/diagnosis.py              the score
    python tests/benchmarks/diagnosis.py --nodes      one line a node
    python tests/benchmarks/diagnosis.py --recorded   every node as a recording on disk, as it would come from a user

Recall: causes found, with severity and subject. False: findings at warning or above beside the causes. Wrong skips:
checks that should stand behind a cause and do not, or should have looked and did not. Exit code 1 where any is not
as it should be (100 %, 0, 0).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.nodes import labels


def main() -> int:
    """Score the nodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", action="store_true", help="one line a node")
    parser.add_argument("--recorded", action="store_true", help="go by way of recordings on disk")
    args = parser.parse_args()
    perfect = True
    for title, nodes in (("tests/nodes/labelled", labels.written()), ("../shared/scenarios", labels.recorded())):
        if not nodes:
            print(f"{title}: not there")
            continue
        scores = {node.name: scored(node, recorded=args.recorded) for node in nodes}
        print(f"{title}: {len(nodes)} nodes; {summary(scores.values())}")
        for name, score in scores.items():
            if args.nodes or not score.perfect:
                print(f"  {name}: {summary([score])}")
            for kind, said in (("missed", score.missed), ("false", score.false), ("wrong skip", score.wrong_skips)):
                for text in said:
                    print(f"    {kind}: {text}")
        perfect = perfect and all(score.perfect for score in scores.values())
    return 0 if perfect else 1


def scored(node: labels.Label, *, recorded: bool) -> labels.Score:
    """The score of one node."""
    if not (recorded or node.needs_a_folder):
        return labels.score(node, node.diagnose())
    with tempfile.TemporaryDirectory() as folder:
        return labels.score(node, node.diagnose(Path(folder)))


def summary(scores: Iterable[labels.Score]) -> str:
    """Recall, false findings and wrong skips in a few words."""
    scores = list(scores)
    causes, missed = sum(score.causes for score in scores), sum(len(score.missed) for score in scores)
    recall = f"recall {100 * (causes - missed) / causes:.1f} % of {causes}" if causes else "no cause"
    false, skips = sum(len(score.false) for score in scores), sum(len(score.wrong_skips) for score in scores)
    return f"{recall}, {false} false, {skips} wrong skips"


if __name__ == "__main__":
    sys.exit(main())

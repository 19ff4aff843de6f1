"""The environment variables that matter: the typed form of environment.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from npudoctor.knowledge import table
from npudoctor.knowledge.values import Rule
from npudoctor.records import record

_OURS = ("ASCEND_", "HCCL_", "TORCH_HCCL_", "PYTORCH_NPU_")


@record(frozen=True, kw_only=True)
class Variable:
    """One variable.

    `legal`, `default`, `products`, `mistake` and `symptom` are for people. `meaning` is a sentence whose subject is the
    variable; `symptom` is a sentence about what a user sees where the value is wrong. `severity` is that of a wrong one
    (error, warning, info; only for `severity_for` where that is given). `judge` is the check that judges it, None for
    env.values. `slow` holds values that are legal and slow a node down. `alias_of` names the variable that it is
    another spelling of. `recorded` is False for what never goes into a recording.
    """

    name: str
    group: str
    meaning: str
    legal: str
    severity: str
    sources: tuple[str, ...]
    rule: Rule | None = None
    rules_by_family: Mapping[str, Rule] | None = None
    default: str | None = None
    products: str | None = None
    mistake: str | None = None
    symptom: str | None = None
    severity_for: str | None = None
    judge: str | None = None
    slow: tuple[str, ...] = ()
    pitfall: str | None = None
    alias_of: str | None = None
    recorded: bool = True
    not_recorded_because: str | None = None
    confidence: str = "high"

    def rule_for(self, family: str | None = None) -> Rule | None:
        """The rule on a chip family; None where the product decides and the family is not known or not named."""
        return self.rule or (self.rules_by_family or {}).get(family or "")

    def problem(self, value: str, *, family: str | None = None) -> str | None:
        """What is wrong with a value, as a clause about it; None where nothing is, or only a host could tell.

        Where products differ, a value is wrong without a known family only if it is wrong on all of them.
        """
        ruled = self.rule_for(family)
        if ruled:
            return ruled.problem(value)
        if family or not self.rules_by_family:
            return None
        problems = {family: each.problem(value) for family, each in self.rules_by_family.items()}
        if not all(problems.values()):
            return None
        distinct = dict.fromkeys(problems.values())
        if len(distinct) == 1:
            return next(iter(distinct))
        return "; ".join(f"on {family}: {problem}" for family, problem in problems.items())


@record(frozen=True, kw_only=True)
class Conflict:
    """Variables that cannot go together.

    `illegal` lists combinations of their values; None stands for unset, `*` for any value. It holds on `families`
    (empty: on all) and, where given, from these releases of torch and of torch_npu's train on.
    """

    names: tuple[str, ...]
    illegal: tuple[tuple[str | None, ...], ...]
    severity: str
    problem: str
    symptom: str
    pitfall: str
    sources: tuple[str, ...]
    families: tuple[str, ...] = ()
    min_torch: str | None = None
    min_pta: str | None = None

    def holds(self, environ: Mapping[str, str]) -> bool:
        """Whether these variables are set to one of the illegal combinations; empty counts as unset."""
        values = [environ.get(name, "").strip() or None for name in self.names]
        return any(
            all(
                value == wanted or (wanted == "*" and value is not None)
                for value, wanted in zip(values, row, strict=True)
            )
            for row in self.illegal
        )


@record(frozen=True, kw_only=True)
class Environment:
    """The whole table. `orchestrators` names the variables by which Kubernetes, Slurm and others show themselves."""

    as_of: str
    variables: tuple[Variable, ...]
    conflicts: tuple[Conflict, ...]
    also_recorded: Mapping[str, str]
    orchestrators: Mapping[str, list[str]]
    products: Mapping[str, str]
    notes: tuple[str, ...]

    def variable(self, name: str) -> Variable | None:
        """The row of this variable; None for one that the table does not know."""
        return self._by_name.get(name)

    def judged_by(self, check: str | None) -> Iterator[Variable]:
        """The variables that this check judges; None for those of env.values."""
        return (variable for variable in self.variables if variable.judge == check)

    def conflicts_in(self, environ: Mapping[str, str], *, family: str | None = None) -> tuple[Conflict, ...]:
        """The illegal combinations in an environment; with an unknown family only those that hold on all."""
        return tuple(
            conflict
            for conflict in self.conflicts
            if conflict.holds(environ) and (not conflict.families or family in conflict.families)
        )

    def orchestrator(self, environ: Mapping[str, str]) -> str | None:
        """Who set this job's variables: Kubernetes, Slurm, ModelArts, Volcano; None where none is known."""
        return next((who for who, names in self.orchestrators.items() if any(map(environ.get, names))), None)

    @cached_property
    def recorded(self) -> frozenset[str]:
        """The names that npudoctor may record; no other variable ever goes into a recording."""
        return frozenset(self.also_recorded) | {variable.name for variable in self.variables if variable.recorded}

    def misspelling_of(self, name: str) -> str | None:
        """The known variable that this unknown one is a single typing slip away from; None for any other name.

        A slip is one letter added, lost or wrong, or two neighbours exchanged, in a name of our own families.
        """
        if name in self._by_name or name in self.also_recorded:
            return None
        text = name.upper()
        near = (known for known in self._ours if abs(len(known) - len(text)) <= 1)
        return next((known for known in near if _is_one_slip(text, known)), None)

    @cached_property
    def _ours(self) -> tuple[str, ...]:
        return tuple(name for name in self._by_name if name.startswith(_OURS))

    @cached_property
    def _by_name(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in self.variables}


def _is_one_slip(text: str, other: str) -> bool:
    """Whether two texts, whose lengths differ by one at most, are one typing slip apart."""
    short, long = sorted((text, other), key=len)
    start = next((place for place, (one, two) in enumerate(zip(short, long, strict=False)) if one != two), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = long[:start] + long[start : start + 2][::-1] + long[start + 2 :]
    return short[start + 1 :] == long[start + 1 :] or short == swapped


def load() -> Environment:
    """Read environment.json."""
    return table.record_of(Environment, table.read("environment"))

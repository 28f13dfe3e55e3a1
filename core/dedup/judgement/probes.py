"""The rules of deduplication that can be asked of a running broker, one question at a time: `dedup probe`.

A *rule* is what a broker does with one message that a producer could send: the last batch again, one with a gap before
it, one of an old epoch. For each rule there are three statements, which need not be the same: what the seed *claims*,
what is *expected* of the broker's version, and what was *seen*. What was seen is two things, the broker's answer and
how many copies of the message its log holds afterwards. An answer alone proves nothing.

The verdict compares with the claim. The exit code compares with what is expected: it tells of a broker that does not
behave as its version should. A rule that could not be tried is *not seen*, with the reason, and never agrees.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.wire.manifests import Record

Version = tuple[int, ...]
"""A broker's version, as far as it is known: (4, 3) or (4, 3, 1); () if it is not known at all."""

ACKNOWLEDGED: Final = "acknowledged"
"""The answer says that the message is stored, at a position that no earlier answer named."""
KNOWN: Final = "acknowledged as known"
"""The answer says that the message is stored already: at the position that it has, or (Pulsar) at none."""
STORED_AS: Final = {0: "not stored", 1: "stored once", 2: "stored twice"}


class Verdict(StrEnum):
    """Whether the broker did what the seed claims."""

    AS_CLAIMED = "as claimed"
    DIFFERS = "differs"
    NOT_SEEN = "not seen"


class Seen(Record):
    """What a broker did with the message of a rule."""

    answer: str = Field(description="`acknowledged`, `acknowledged as known`, or the broker's refusal by its name")
    copies: int = Field(description="how often the log holds the message afterwards", ge=0)

    def __str__(self) -> str:
        return f"{self.answer}; {STORED_AS.get(self.copies, f'stored {self.copies} times')}"


@dataclass(frozen=True)
class Outcome:
    """What a broker is said to do: one of these answers, and so many copies in the log."""

    answers: tuple[str, ...]
    copies: int

    def allows(self, seen: Seen) -> bool:
        return seen.answer in self.answers and seen.copies == self.copies

    def __str__(self) -> str:
        return str(Seen(answer=" or ".join(self.answers), copies=self.copies))


STORED: Final = Outcome((ACKNOWLEDGED,), 1)
STORED_TWICE: Final = Outcome((ACKNOWLEDGED,), 2)
RECOGNISED: Final = Outcome((KNOWN,), 1)


def refused(*names: str, copies: int = 0) -> Outcome:
    """Refused by one of these names; `copies`: how often the log holds the message all the same, from before."""
    return Outcome(names, copies)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The record of one rule."""

    name: str
    tried: str
    """What is sent, in words."""
    claim: Outcome
    source: str
    """Who claims it: S0 to S4 are the seeds."""
    expected: Mapping[Version, Outcome] = field(default_factory=dict)
    """What is expected from each version on; empty: what is claimed, of every version."""
    note: str = ""
    """Why it is so, and what it means for a producer."""

    def expected_of(self, version: Version) -> Outcome:
        """What is expected of a version; of an unknown one (`()`) what is expected of the newest."""
        since = [each for each in sorted(self.expected) if not version or each <= version]
        return self.expected[since[-1]] if since else self.claim


class Row(Record):
    """One rule, asked of one broker."""

    name: str
    tried: str
    claim: str
    source: str
    expected: str
    seen: str | None = Field(description="None: it could not be tried")
    verdict: Verdict
    as_expected: bool | None = Field(description="None: it could not be tried")
    problem: str | None = Field(None, description="why it could not be tried")
    seconds: float


class Probed(Record):
    """The whole: what was asked, and what came of it."""

    url: str
    asked: str = Field(description="when, in UTC, as ISO 8601")
    product: str
    version: str = Field(description="as far as the brokers tell it")
    rows: tuple[Row, ...]
    seconds: float

    @property
    def unexpected(self) -> list[Row]:
        return [row for row in self.rows if row.as_expected is False]

    @property
    def unseen(self) -> list[Row]:
        return [row for row in self.rows if row.verdict is Verdict.NOT_SEEN]

    @property
    def exit_code(self) -> int:
        """0: all is as expected; 1: something is not; 3: nothing differs, but not all could be tried."""
        if self.unexpected:
            return 1
        return 3 if self.unseen or not self.rows else 0


def row(rule: Rule, version: Version, seen: Seen | str, seconds: float) -> Row:
    """The row of a rule. `seen`: what the broker did, or in words why that is not known."""
    expected, known = rule.expected_of(version), isinstance(seen, Seen)
    if isinstance(seen, Seen):
        verdict = Verdict.AS_CLAIMED if rule.claim.allows(seen) else Verdict.DIFFERS
    else:
        verdict = Verdict.NOT_SEEN
    return Row(
        name=rule.name,
        tried=rule.tried,
        claim=str(rule.claim),
        source=rule.source,
        expected=str(expected),
        seen=str(seen) if known else None,
        verdict=verdict,
        as_expected=expected.allows(seen) if isinstance(seen, Seen) else None,
        problem=None if known else str(seen),
        seconds=round(seconds, 2),
    )


def version_of(text: str) -> Version:
    """The numbers that a version begins with: (4, 2, 4) of "4.2.4-SNAPSHOT"; () of "unknown"."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: next((at for at, each in enumerate(part) if not each.isdecimal()), len(part))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def table(rules: Iterable[Rule], results: Mapping[str, Probed]) -> str:
    """The Markdown table "seed's claim against today's version"; `results` by heading, each with its row a rule."""
    heads = ["rule", "tried", "seed's claim", *results]
    lines = ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
    for rule in rules:
        cells = [f"`{rule.name}`", rule.tried, f"{rule.claim} ({rule.source})"]
        for probed in results.values():
            found = next((each for each in probed.rows if each.name == rule.name), None)
            cells.append("not asked" if found is None else _seen(found))
        lines.append("| " + " | ".join(each.replace("|", r"\|") for each in cells) + " |")
    return "\n".join(lines)


def reasons(rules: Iterable[Rule]) -> str:
    """The notes on the rules, as a Markdown list."""
    return "\n".join(f"- `{rule.name}`: {rule.note}." for rule in rules)


def _seen(found: Row) -> str:
    if found.seen is None:
        return f"not seen: {found.problem}"
    claim = found.verdict.value if found.verdict is Verdict.AS_CLAIMED else f"**{found.verdict.value}**"
    return f"{found.seen}: {claim}" + ("" if found.as_expected else "; **not expected of this version**")

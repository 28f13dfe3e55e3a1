"""What the API server checks of an experiment beyond types and bounds: rules in CEL, each with words for a user.

The models of `dedup.experiments` refuse the same, but in a cluster they can speak only when the resource is stored
already; these rules speak at `kubectl apply`. They say everything a second time, in another language, so one table of
wrong specs is put to both doors (tests/operator/wrong_specs.py): a rule that is missing on one side fails a test.

The API server estimates what a rule costs at most from the bounds of the lists and strings it walks, and refuses a
definition whose rules could cost too much. That is why everything is bounded.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from dedup.experiments import LATENCY_FAULT, Fault, Spec, System, Workload
from dedup.quantities import PATTERN, format_duration

PATTERNS: Final = {
    r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$": (
        "a name is lower-case letters, digits and dashes, begins with a letter and ends with a letter or digit; "
        "rename it, such as kafka-1"
    ),
    r"^[0-9]+(\.[0-9]+){1,3}(-[A-Za-z0-9.]+)?$": "a version is numbers with dots between them; write it like 4.3.1",
}
"""In words what a regular expression of the models asks for: the API server itself says the expression only."""

LIMITS: Final = {
    "gt": (">", "more than"),
    "ge": (">=", "at least"),
    "lt": ("<", "less than"),
    "le": ("<=", "at most"),
}
"""The bounds of a duration by their names in pydantic: their sign in CEL, and in words."""


class Rule(NamedTuple):
    """`holds` is true of a right value, which it knows as `self`; `message` says what is wrong and what to do.

    `says` may be given too: CEL that makes the message from the values. Where it fails, `message` is said.
    """

    holds: str
    message: str
    says: str | None = None
    field: str | None = None

    def written(self) -> dict[str, str]:
        """As an item of `x-kubernetes-validations`."""
        rule = {"rule": self.holds, "message": self.message}
        if self.says is not None:
            rule["messageExpression"] = self.says
        if self.field is not None:
            rule["fieldPath"] = f".{self.field}"
        return rule


def rules_of(model: type[BaseModel]) -> tuple[Rule, ...]:
    """The rules that span several keys of a model."""
    return _RULES.get(model, ())


def matching(pattern: str, field: str | None = None) -> Rule:
    """A text, or the text in a field of an object, matches one of `PATTERNS`."""
    text = f"self.{field}" if field else "self"
    return Rule(f"{text}.matches(r'{pattern}')", PATTERNS[pattern], field=field)


def duration(limits: Mapping[str, float]) -> Rule:
    """A duration within `limits`, which are named as in pydantic: gt, ge, lt, le, in seconds."""
    holds, bounds = [f"self.matches('{PATTERN}')"], []
    for name, (sign, words) in LIMITS.items():
        if name in limits:
            bound = format_duration(limits[name])
            holds.append(f"duration(self) {sign} duration('{bound}')")
            bounds.append(f"{words} {bound}")
    here = f", here {' and '.join(bounds)}" if bounds else ""
    rule = f"a duration is a whole number and a unit of ms, s, m or h{here}"
    return Rule(" && ".join(holds), f"{rule}; write it like 10s")


def keys_within(length: int) -> Rule:
    """The keys of a map are bounded; a structural schema cannot say it."""
    return Rule(f"self.all(key, size(key) <= {length})", f"a key has at most {length} characters; shorten it")


def _one_of(what: str, *keys: str) -> Rule:
    """A union: exactly one of the keys is given. A key without a value gives nothing."""
    given = ", ".join(f"has(self.{key})" for key in keys)
    *most, last = keys
    return Rule(
        f"[{given}].exists_one(given, given)",
        f"{what} is exactly one of {', '.join(most)} and {last}; "
        "give one of these keys and no other ({} below it takes every default)",
    )


def _no_fault(breach: str, rule: str, named: str, todo: str) -> Rule:
    """No fault may be as `breach` says; `named` is CEL for the rule with its numbers, after the names of the faults."""
    faults = f"self.faults.filter(fault, {breach}).map(fault, fault.name).join(', ')"
    return Rule(
        f"!self.faults.exists(fault, {breach})",
        f"{rule}; {todo}",
        says=f"'fault ' + {faults} + {named} + '; {todo}'",
        field="faults",
    )


_ENDS_TOO_LATE: Final = " || ".join(
    f"(has(fault.{kind}) && duration(fault.{kind}.{lasts}) >= duration(self.timeouts.run))"
    for kind, lasts in (("killTCP", "duration"), ("kill", "restartAfter"))
)

_RULES: Final[Mapping[type[BaseModel], tuple[Rule, ...]]] = {
    System: (
        _one_of("a system", "kafka", "pulsar"),
        *(
            Rule(
                f"!has(self.{kind}) || !has(self.client.library) || self.client.library == '{library}'",
                f"it does not speak to {kind}; write {library} or take the key out",
                field="client.library",
            )
            for kind, library in (("kafka", "confluent-kafka"), ("pulsar", "pulsar-client"))
        ),
    ),
    Workload: (
        Rule(
            "self.messages >= self.partitions",
            "each partition gets at least one message; send more or use fewer partitions",
            says="'there are ' + string(self.partitions) + ' partitions and each gets at least one message; "
            "send more or use fewer partitions'",
            field="messages",
        ),
    ),
    Fault: (
        _one_of("a fault", "killTCP", "kill", "moveLeader"),
        Rule(
            f"self.name != '{LATENCY_FAULT}'",
            "the system's own network latency has this name; choose another",
            field="name",
        ),
    ),
    Spec: (
        _no_fault(
            "fault.at.message > self.workload.messages",
            "a fault must begin while messages are sent",
            "' begins too late: the last message is ' + string(self.workload.messages)"
            " + ', and a fault must begin while messages are sent'",
            "name an earlier message or send more",
        ),
        _no_fault(
            _ENDS_TOO_LATE,
            "a run is cancelled after timeouts.run, before a fault would end",
            "' lasts too long: a run is cancelled after timeouts.run, ' + self.timeouts.run",
            "make the fault shorter or give the run more time",
        ),
        Rule(
            "self.systems.all(one, self.systems.all(other, one.name == other.name || "
            "self.variants.all(this, self.variants.all(that, "
            "one.name + '-' + this.name != other.name + '-' + that.name))))",
            "runs are called SYSTEM-VARIANT, and two of them would be called the same, "
            'as variant "b-c" on system "a" and variant "c" on system "a-b" would; rename one of them',
            field="variants",
        ),
    ),
}


def written(rules: Iterable[Rule]) -> dict[str, Any]:
    """The rules as the keyword of a schema; no keyword for no rules."""
    validations = [rule.written() for rule in rules]
    return {"x-kubernetes-validations": validations} if validations else {}

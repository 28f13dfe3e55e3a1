"""What the API server checks of an experiment beyond types and bounds: rules in CEL, each with words for a user.

The models of `dedup.experiment.spec` refuse the same, but in a cluster they can speak only when the resource is stored
already; these rules speak at `kubectl apply`. They say everything a second time, in another language, so one table of
wrong specs is put to both doors (tests/operator/wrong_specs.py): a rule that is missing on one side fails a test.

The API server estimates what a rule costs at most from the bounds of the lists and strings it walks, and refuses a
definition whose rules could cost too much. That is why everything is bounded.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from dedup.experiment import clients
from dedup.experiment.artifacts import Artifacts
from dedup.experiment.client_choices import OWN_SETTINGS, Client
from dedup.experiment.clients import ADVICE, CLIENTS, RULE, libraries, speaking, version_rule
from dedup.experiment.comparisons import MOST_RUNS, SELDOM, TOO_MANY, TOO_MANY_TODO, ComparisonSpec, Template
from dedup.experiment.deployments import PLAIN_RULE, STRIMZI, TOKEN_RULE, Deploy, Existing
from dedup.experiment.spec import MAX_RUNS, Spec, System, Workload
from dedup.experiment.systems import EXISTING, PRODUCTS, Product, Protocol
from dedup.experiment.variants import CONTROL_SWITCH, TREATMENT_SWITCH, Expectation
from dedup.experiment.workloads import ONE_KIND
from dedup.faults.draws import Operation
from dedup.faults.kinds import FaultKind, Need
from dedup.faults.moments import At
from dedup.faults.registry import (
    CONSENT_TODO,
    KINDS,
    LATENCY_FAULT,
    STRAIGHT_RULE,
    STRAIGHT_TODO,
    UNREACHED,
    Fault,
    on_consent,
    on_existing,
    possible_on_existing,
)
from dedup.parts import PATTERNS
from dedup.quantities import PATTERN, format_duration
from dedup.workloads import registry as workloads

LIMITS: Final = {
    "gt": (">", "more than"),
    "ge": (">=", "at least"),
    "lt": ("<", "less than"),
    "le": ("<=", "at most"),
}
"""The bounds of a duration by their names in pydantic: their sign in CEL, and in words."""


class Rule(NamedTuple):
    """`holds` is true of a right value, which it knows as `self`; `message` says what is wrong and what to do.

    `says` is CEL that makes the message from the value, but only from a short text: the API server knows no bound for
    the length of a number as text, and refuses what could cost it too much. `field` points to where the value stands.
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
    own = tuple(_together(model)) if issubclass(model, FaultKind) else ()
    return (*own, *_RULES.get(model, ()))


def matching(pattern: str, field: str | None = None) -> Rule:
    """A text, or the text in a field of an object, matches one of the models' `PATTERNS`.

    The API server itself says the expression only.
    """
    text = f"self.{field}" if field else "self"
    return Rule(f"{text}.matches(r'{pattern}')", "; ".join(PATTERNS[pattern]), field=field)


def duration(limits: Mapping[str, float]) -> Rule:
    """A duration within `limits`, which are named as in pydantic: gt, ge, lt, le, in seconds."""
    holds, bounds = [_is_duration("self")], []
    for name, (sign, words) in LIMITS.items():
        if name in limits and (name, limits[name]) != ("ge", 0):  # none is negative
            bound = format_duration(limits[name])
            holds.append(f"duration(self) {sign} duration('{bound}')")
            bounds.append(f"{words} {bound}")
    here = f", here {' and '.join(bounds)}" if bounds else ""
    message = f"a duration is a whole number and a unit of ms, s, m or h{here}; write it like 10s"
    return Rule(" && ".join(holds), message, says=f"'got ' + self + '; {message}'")


def keys_within(length: int) -> Rule:
    """The keys of a map are bounded; a structural schema cannot say it."""
    return Rule(f"self.all(key, size(key) <= {length})", f"a key has at most {length} characters; shorten it")


def _is_duration(text: str) -> str:
    return f"{text}.matches('{PATTERN}')"


def _one_of(what: str, *keys: str) -> Rule:
    """A union: exactly one of the keys is given. A key without a value gives nothing."""
    given = ", ".join(f"has(self.{key})" for key in keys)
    *most, last = keys
    return Rule(
        f"[{given}].exists_one(given, given)",
        f"{what} is exactly one of {', '.join(most)} and {last}; "
        "give one of these keys, with a mapping below it, and no other",
    )


def _library(product: Product) -> Rule:
    """The client library speaks the product's protocol."""
    named = " || ".join(f"self.client.library == '{each.library}'" for each in speaking(product.protocol))
    return Rule(
        f"!has(self.{product.key}) || !has(self.client.library) || {named}",
        f"it does not speak to {product.key}; write {libraries(product.protocol)}, or take the key out",
        field="client.library",
    )


def _existing(product: Product) -> Rule:
    """The keys of a system of that product that is there already."""
    at, (needed, optional) = "self.deploy.existing", EXISTING[product.protocol]
    known = [field.alias or name for name, field in Existing.model_fields.items()]
    foreign = [key for key in known if key not in (*needed, *optional)]
    keys = [*(f"has({at}.{key})" for key in needed), *(f"!has({at}.{key})" for key in foreign)]
    return Rule(
        f"!has(self.{product.key}) || !has(self.deploy) || !has({at}) || {' && '.join(keys)}",
        f"a {product.name} that is there already has {' and '.join(needed)}, "
        f"and may have {' and '.join(optional)}; give these keys and no other",
        field="deploy",
    )


def _switch(these: str, others: str, wanted: str, words: str) -> Rule:
    """Variants that expect one of `these` have the switch as `wanted`, if another expects one of the `others`.

    Where a variant changes the workload or the client, only the models say how it must be: the operator says so in the
    status.
    """
    return Rule(
        "self.variants.exists(variant, has(variant.workload) || has(variant.client)) || "
        f"!self.variants.exists(variant, variant.expect in {others}) || "
        f"self.variants.all(variant, !(variant.expect in {these}) || variant.deduplication == '{wanted}')",
        f"{words} deduplication; write {wanted}, or change what the variants expect",
        field="variants",
    )


def _is_not(client: clients.Client) -> str:
    """CEL that holds of a system whose client this is not: neither by name, nor as its protocol's default."""
    default, *others = speaking(client.protocol)
    by_default = " && ".join(f"!has(self.{each.key})" for each in PRODUCTS.values() if each.protocol == client.protocol)
    other = f"self.client.library != '{client.library}'"
    if client != default:
        return f"!has(self.client.library) || {other}"
    unnamed = f"(has(self.client.command) || {by_default})"
    return f"(has(self.client.library) ? {other} : {unnamed})" if others else unnamed


def _version(client: clients.Client) -> Rule:
    """The client's version is one that it has, where it is the client."""
    known = ", ".join(f"'{version}'" for version in client.versions)
    return Rule(
        f"{_is_not(client)} || !has(self.client.version) || self.client.version in [{known}]",
        "; ".join(version_rule(client)),
        field="client.version",
    )


def _settings(client: clients.Client) -> Rule:
    """The client's own settings are on its list, where it is the client."""
    known = ", ".join(f"'{name}'" for name in client.allowed)
    return Rule(
        f"{_is_not(client)} || !has(self.client.properties) || self.client.properties.all(name, name in [{known}])",
        f"{RULE}; {ADVICE}",
        field="client.properties",
    )


def _choices(need: Need, there: str) -> Iterator[Rule]:
    """Values of faults' settings need something; `there` is CEL that says whether a spec has it."""
    for kind in KINDS:
        own = (choice for choice in kind.choices if choice.need is need)
        for (field, said), found in groupby(own, lambda each: (each.field, each.said)):
            at, values = f"fault.{kind.key}", [choice.value.value for choice in found]
            setting = f"{at}.{kind.alias(field)}"
            other = f"{setting} != '{values[0]}'" if len(values) == 1 else f"!({setting} in {values})"
            yield Rule(f"{there} || {_of_all_faults(f'!has({at}) || {other}')}", said)


def _earlier(where: str, key: str) -> str:
    """CEL: the duration at that key, if it is there and is one, is less than timeouts.run."""
    at = f"{where}.{key}"
    return f"(!has({at}) || !{_is_duration(at)} || duration({at}) < duration(self.timeouts.run))"


def _while_sending(where: str, key: str) -> str:
    """CEL: by the duration at that key, in whole seconds, not all messages can be sent."""
    at, sent = f"{where}.{key}", "self.workload.messagesPerSecond"
    return f"(!has({at}) || !{_is_duration(at)} || duration({at}).getSeconds() * {sent} < self.workload.messages)"


def _of_all_faults(holds: str) -> str:
    """CEL that holds if this holds of every `fault`, of those that are done and of those to draw from."""
    drawn = f"(!has(self.random) || self.random.operations.all(fault, {holds}))"
    return f"(self.faults.all(fault, {holds}) && {drawn})"


def _any_of(kinds: Iterable[type[FaultKind]]) -> str:
    """CEL: `fault` is of one of these kinds."""
    return " || ".join(f"has(fault.{kind.key})" for kind in kinds)


_DEPLOYED: Final = "!has(system.deploy) || !has(system.deploy.existing)"
_LED: Final = tuple(kind for kind in KINDS if kind.through_proxy or kind.on_frames)
"""The kinds for which clients of a system that is there already are led past a proxy or an interposer."""


def _all_speak(protocol: Protocol) -> str:
    """CEL: every system speaks this protocol, whatever product it is."""
    said = " || ".join(f"has(system.{each.key})" for each in PRODUCTS.values() if each.protocol == protocol)
    return f"self.systems.all(system, {said})"


def _together(kind: type[FaultKind]) -> Iterator[Rule]:
    """Settings that mean something with one value of another setting only."""
    for each in kind.only_with:
        key, other = kind.alias(each.field), kind.alias(each.other)
        yield Rule(
            f"!has(self.{key}) || self.{other} == '{each.value}'",
            f"{each.rule}; take it out, or write {each.value} as {other}",
            field=key,
        )
        if each.needed:
            yield Rule(f"has(self.{key}) || self.{other} != '{each.value}'", f"{each.rule}; write {key}")


def _lasting(kind: type[FaultKind]) -> tuple[str, str, str]:
    """Its key, the key of its duration if it has one, and CEL that holds if that is left out where it may be."""
    if kind.lasting is None:
        return kind.key, "", ""
    lasts, field = kind.alias(kind.lasting), kind.model_fields[kind.lasting]
    optional = not field.is_required() and field.default is None
    return kind.key, lasts, f"!has(fault.{kind.key}.{lasts}) || " if optional else ""


_CONTROL: Final = f"['{Expectation.DUPLICATES}']"
_TREATMENT: Final = str([each.value for each in Expectation if each.forbids_copies])

_KINDED: Final = (
    _one_of("a fault", *(kind.key for kind in KINDS)),
    Rule(
        f"self.name != '{LATENCY_FAULT}'",
        "the system's own network latency has this name; choose another",
        field="name",
    ),
)
"""What holds of a fault whether it is done or drawn from."""

_RULES: Final[Mapping[type[BaseModel], tuple[Rule, ...]]] = {
    Client: tuple(
        Rule(
            f"!has(self.command) || !has(self.{key})",
            f"{OWN_SETTINGS}; take {key} out, or command",
            field=key,
        )
        for key in ("library", "version")
    ),
    System: (
        _one_of("a system", *PRODUCTS),
        *map(_library, PRODUCTS.values()),
        *map(_existing, PRODUCTS.values()),
        Rule(
            " || ".join(
                (
                    *(f"has(self.{product.key})" for product in PRODUCTS.values() if STRIMZI in product.charts),
                    f"!has(self.deploy) || !has(self.deploy.chart) || self.deploy.chart != '{STRIMZI}'",
                )
            ),
            "Strimzi runs Kafka and nothing else; write kafka, or take deploy out",
            field="deploy",
        ),
        *map(_version, CLIENTS.values()),
        *map(_settings, CLIENTS.values()),
    ),
    Deploy: (_one_of("a deployment", "existing", "chart"),),
    Existing: (
        Rule(
            "!has(self.serviceUrl) && !has(self.adminUrl) || has(self.tls) == "
            "(has(self.serviceUrl) && self.serviceUrl.startsWith('pulsar+ssl://') || "
            "has(self.adminUrl) && self.adminUrl.startsWith('https://'))",
            "a Pulsar speaks TLS where its URLs say so, and tls names who signed its certificates; "
            "write tls with pulsar+ssl:// or https://, and with these only",
        ),
        Rule(
            "!has(self.sasl) || self.sasl.mechanism != 'PLAIN' || has(self.tls)",
            f"{PLAIN_RULE}; write tls, or a SCRAM mechanism",
            field="sasl",
        ),
        Rule(
            "!has(self.token) || (!has(self.serviceUrl) || self.serviceUrl.startsWith('pulsar+ssl://')) && "
            "(!has(self.adminUrl) || self.adminUrl.startsWith('https://'))",
            f"{TOKEN_RULE}; write pulsar+ssl:// and https://, or take token out",
            field="token",
        ),
    ),
    Artifacts: (_one_of("a place for artifacts", "s3", "pvc"),),
    Workload: (
        Rule(
            "self.messages >= self.partitions",
            "there are more partitions than messages, and each gets at least one message; "
            "send more or use fewer partitions",
            field="messages",
        ),
        Rule(
            f"size([{', '.join(f'has(self.{kind.key})' for kind in workloads.KINDS)}].filter(given, given)) <= 1",
            f"{ONE_KIND}; keep one of them",
        ),
    ),
    Fault: (
        *_KINDED,
        *(
            Rule(
                f"!has(self.{kind.key}) || has(self.at.message)",
                f"{kind.key} counts from a message on, for no clock decides which request or reply is struck; "
                "write at.message",
                field="at",
            )
            for kind in KINDS
            if kind.on_frames
        ),
    ),
    At: (
        Rule(
            "has(self.message) != has(self.after)",
            "a fault begins at a message or after a time; "
            "write {message: 50000}, {after: 5s} or {fault: NAME, after: 2s}",
        ),
        Rule(
            "!has(self.fault) || has(self.after)",
            "only a time is counted from another fault's effect; write after",
            field="fault",
        ),
    ),
    Operation: (
        *_KINDED,
        *(
            Rule(
                f"!has(self.{kind.key})",
                f"{kind.key} counts from a message on, and what is drawn begins at a time; write it as one of faults",
            )
            for kind in KINDS
            if kind.on_frames
        ),
    ),
    Template: (
        Rule("!has(self.spec.runToken)", f"{SELDOM}; take runToken out", field="spec.runToken"),
        Rule("!self.spec.suspend", f"{SELDOM}; take suspend out", field="spec.suspend"),
        Rule(
            f"size(self.spec.systems) * size(self.spec.variants) * self.spec.runs <= {MOST_RUNS}",
            f"{TOO_MANY}; {TOO_MANY_TODO}",
            field="spec.runs",
        ),
    ),
    ComparisonSpec: (Rule("self == oldSelf", "a comparison asks once, and its spec stays as it is; make another one"),),
    Spec: (
        Rule(
            f"size(self.systems) * size(self.variants) * self.runs <= {MAX_RUNS}",
            f"at most {MAX_RUNS:,} make an experiment, over all systems and variants; "
            "ask for fewer runs, or make two experiments of it",
            field="runs",
        ),
        Rule(
            f"!has(self.workload.messagesPerSecond) || !{_is_duration('self.timeouts.run')} || "
            "self.workload.messages < self.workload.messagesPerSecond * duration(self.timeouts.run).getSeconds()",
            "a run is cancelled after timeouts.run, and so many messages take longer at workload.messagesPerSecond; "
            "send fewer or more of them in a second, or give the run more time",
            field="workload",
        ),
        Rule(
            "self.faults.all(fault, !has(fault.at.message) || fault.at.message <= self.workload.messages)",
            "a fault must begin while messages are sent, so its at.message is at most workload.messages; "
            "name an earlier message or send more",
            field="faults",
        ),
        Rule(
            "self.faults.all(fault, !has(fault.at.fault) || self.faults.exists(other, other.name == fault.at.fault))",
            "at.fault is another fault, and one of the experiment's faults; name one of them",
            field="faults",
        ),
        Rule(
            f"!{_is_duration('self.timeouts.run')} || (self.faults.all(fault, {_earlier('fault.at', 'after')}) && "
            f"(!has(self.random) || {_earlier('self.random', 'duration')}))",
            "a run is cancelled after timeouts.run, so a fault's at.after and random.duration are less than that; "
            "make it shorter or give the run more time",
        ),
        Rule(
            f"!{_is_duration('self.timeouts.run')} || {_earlier('self.timeouts', 'delivery')}",
            "a run is cancelled after timeouts.run, and timeouts.delivery is less than that; "
            "make it shorter or give the run more time",
            field="timeouts",
        ),
        Rule(
            "!has(self.timeouts.delivery) || !has(self.workload.resend)",
            "workload.resend has a deliveryTimeout of its own, which counts there, and not timeouts.delivery; "
            "take one of them out",
            field="timeouts",
        ),
        Rule(
            "!has(self.workload.messagesPerSecond) || (self.faults.all(fault, has(fault.at.fault) || "
            f"{_while_sending('fault.at', 'after')}) && "
            f"(!has(self.random) || {_while_sending('self.random', 'duration')}))",
            "at workload.messagesPerSecond all messages are sent by then, and a fault must begin while messages are "
            "sent, so at.after and random.duration are less than that; make it shorter, or send more or slower",
        ),
        Rule(
            "!has(self.random) || self.faults.all(fault, "
            "self.random.operations.all(drawn, !fault.name.startsWith(drawn.name + '-')))",
            "the faults that are drawn from an operation are called NAME-1, NAME-2, …, and a written one is not; "
            "rename one of them",
            field="faults",
        ),
        *(
            Rule(
                f"!{_is_duration('self.timeouts.run')} || "
                + _of_all_faults(
                    f"!has(fault.{kind}) || {left_out}"
                    f"!{_is_duration(f'fault.{kind}.{lasts}')} || "
                    f"duration(fault.{kind}.{lasts}) < duration(self.timeouts.run)"
                ),
                f"a run is cancelled after timeouts.run, so a fault's {kind}.{lasts} is less than that; "
                "make the fault shorter or give the run more time",
            )
            for kind, lasts, left_out in map(_lasting, KINDS)
            if lasts
        ),
        *_choices(Need.KAFKA, _all_speak("kafka")),
        *_choices(Need.PULSAR, _all_speak("pulsar")),
        *(
            Rule(
                f"size(self.faults.filter(fault, has(fault.{kind.key}))) <= 1",
                f"an experiment has at most one {kind.key}: {kind.single}; take one of them out",
                field="faults",
            )
            for kind in KINDS
            if kind.single
        ),
        *_choices(Need.BOOKIES, "self.systems.all(system, has(system.pulsar))"),
        Rule(
            f"self.systems.all(system, {_DEPLOYED}) || {_of_all_faults(_any_of(on_existing()))} || "
            f"self.systems.all(system, {_DEPLOYED} || "
            f"has(system.deploy.existing.podSelector)) && {_of_all_faults(_any_of([*on_existing(), *on_consent()]))}",
            f"one of the systems is there already: {UNREACHED}; "
            f"write {possible_on_existing()}, or let the system be deployed; for "
            f"{', '.join(kind.key for kind in on_consent())} {CONSENT_TODO}",
        ),
        Rule(
            f"self.systems.all(system, {_DEPLOYED}) || {_of_all_faults(f'!({_any_of(on_consent())})')} || "
            f"{_of_all_faults(f'!({_any_of(_LED)})')} && "
            f"self.systems.all(system, {_DEPLOYED} || !{_is_duration('system.network.latency')} || "
            "duration(system.network.latency) == duration('0s'))",
            f"{STRAIGHT_RULE}; {STRAIGHT_TODO}",
        ),
        *_choices(Need.OWN_BOOKIES, f"self.systems.all(system, !has(system.pulsar) || {_DEPLOYED})"),
        *_choices(Need.POLICIES, "self.systems.all(system, !has(system.deploy))"),
        *_choices(Need.PRIVILEGE, "self.allowPrivilegedFaults"),
        *_choices(Need.TRANSACTIONS, "has(self.workload.transactions)"),
        _switch(_CONTROL, _TREATMENT, "Disabled", CONTROL_SWITCH),
        _switch(_TREATMENT, _CONTROL, "Enabled", TREATMENT_SWITCH),
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

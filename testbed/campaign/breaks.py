"""What can go wrong with one request of the operator, and the way to the cluster on which it does.

A request can be lost before it is done, or be done without the operator learning of it; it can be answered with a
refusal that passes; the operator can die on either side of it; and another client can be quicker. Each of these is a
*break*; a break at one request of one story is a *point*.

What an API server answers is put to the operator's own `LiveCluster`, by a client that gives no other answer. So a
break means what the operator makes of it, and not what a test thinks that it makes.
"""

import json
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final, NamedTuple

from urllib3.exceptions import ProtocolError

from dedup_operator.clusters import Cluster, ClusterError, LiveCluster, Object
from dedup_operator.objects.runs import RUN
from testbed.worlds import Crash

WRITES: Final = ("create", "delete", "patch", "replace_status")
READS: Final = ("get", "list")
EVERY: Final = (*READS, *WRITES)
WORK: Final = ("Job", "SparkApplication")
"""The kinds that do work; the other kinds only support them."""
LOST: Final = 0
"""Instead of an HTTP status: the connection broke."""


class Request(NamedTuple):
    """One request, as it was asked."""

    stage: str
    verb: str
    kind: str
    name: str
    by_helm: bool

    def __str__(self) -> str:
        return f"{self.verb} {self.kind} {self.name}" + (" (helm)" if self.by_helm else "")


class Effect(NamedTuple):
    """A created thing, named by its purpose: a second one for the same purpose is an error."""

    kind: str
    component: str
    of: str

    def __str__(self) -> str:
        return " ".join(filter(None, self))


@dataclass(frozen=True)
class Break:
    """`done`: how often the cluster does what was asked; then the answer comes: an HTTP status, or its own (None)."""

    name: str
    verbs: tuple[str, ...]
    done: int = 0
    answer: int | None = None
    crashes: bool = False
    helm: bool = True
    meanwhile: str = ""
    """What other clients do just before the request: a method of the course, or of something that it has."""
    afterwards: str = ""
    """What other clients do just after it."""
    old: int = 0
    """A reading is answered with what there was so many writes ago."""
    needs: str = ""
    """A method that tells, of the course before the look, whether there is something for them to do it to."""
    again: tuple[str, ...] = ()
    """The components of which one effect more is right."""
    doubts: bool = False
    """It may end as *Error* with less done, and with a failure more; as *Pass* only if all evidence is there."""

    def breaks(self, request: Request) -> bool:
        """Whether this break applies to the request."""
        return request.verb in self.verbs and (self.helm or not request.by_helm)


RELEASE: Final = "Release"
AGAIN: Final = (RUN, "verification")
"""The components that are begun again when their pod was lost."""
BREAKS: Final = (
    Break("crash before", EVERY, crashes=True),
    Break("crash after", WRITES, done=1, crashes=True),
    Break("409, not done", WRITES, answer=409),
    Break("429, not done", EVERY, answer=429),
    Break("500, not done", EVERY, answer=500),
    Break("503, not done", EVERY, answer=503),
    Break("connection lost, not done", EVERY, answer=LOST),
    Break("504, but done", WRITES, done=1, answer=504),
    Break("connection lost, but done", WRITES, done=1, answer=LOST),
    Break("sent twice", WRITES, done=2, helm=False),
    Break("controllers move before", EVERY, done=1, meanwhile="move"),
    Break("somebody writes before", EVERY, done=1, meanwhile="annotate"),
)
DELETED: Final = Break("experiment deleted before", EVERY, done=1, meanwhile="depart")
"""It leaves no verdict to compare: what counts is that nothing stays."""
USERS: Final = (
    Break("a new runToken before", EVERY, done=1, meanwhile="renew"),
    Break("suspended before", EVERY, done=1, meanwhile="suspend"),
)
"""The user may be quicker at any request; how often a run is begun then is not that of a calm course."""
LEFT: Final = Break("crash after, then deleted", WRITES, done=1, crashes=True, afterwards="depart")
"""The one that leaves something: the record of a release that Helm had not finished, which has no owner yet."""
LOSSES: Final = tuple(
    Break(f"a {what} is {becomes} before", EVERY, done=1, meanwhile=f"controllers.{how}", needs=needs, again=AGAIN)
    for what, becomes, how, needs in (
        ("pod", "deleted", "delete_pod", "controllers.at_work"),
        ("pod", "evicted", "evict_pod", "controllers.at_work"),
        ("node", "lost", "lose_node", "controllers.on_a_node"),
    )
)
"""What Kubernetes makes of it is in controllers.py. The end is that of a calm course, failures and progress included: a
run that has lost its pod was interrupted, and is done again as a new attempt; a verification that has lost its driver
is made again. Of all else a Job makes another pod."""
FORGED: Final = tuple(
    Break(f"somebody {what} before", EVERY, done=1, meanwhile=f"forger.{how}", needs=needs, **more)
    for what, how, needs, more in (
        ("forges the next name", "take_name", "forger.is_free", {}),
        ("forges a pod of a run", "make_pod", "", {}),
        ("forges a Job and workloads", "make_work", "", {}),
        ("forges a record of Helm's", "make_record", "", {"helm": False}),
        ("removes owner references", "disown", "forger.has_work", {}),
        ("removes labels", "unlabel", "forger.has_work", {"again": ("readiness", RELEASE)}),
        ("forges a used runToken", "mark_used", "forger.has_snapshot", {}),
        ("forges a success", "say_complete", "forger.can_say", {"again": ("report",), "doubts": True}),
        ("forges a failure", "say_failed", "forger.can_say", {"again": ("report",), "doubts": True}),
    )
)
"""What that is, is in forgers.py. What stands in the way is told in a stall; when it is gone, or has never stood there,
the end is that of a calm course, and nothing was done a second time. Only what Helm has no record of it installs again,
and proves again.

Helm itself goes by labels alone: a record that comes while it is at work it takes for its own.

An end that is forged may be believed: that is less than what its forger may do with these rights anyway. So what holds
is that the end is *Pass* only if the work was done all the same, and else *Error*."""
STALE: Final = tuple(Break(f"answered as {n} writes ago", ("get", "list"), old=n, helm=False) for n in (1, 4, 8))
"""No API server answers so. A reading without a resourceVersion, and the operator has no other, is the most recent one
there is (Kubernetes API concepts, “semantics for get and list”; KEP-2340 keeps it so for readings from the cache)."""


Breaks = Callable[[int, Request], Break | None]
"""The break of a request; None: no break."""


def at(number: int, how: Break) -> Breaks:
    """One break, at the request of that number."""
    return lambda now, _request: how if now == number else None


@dataclass
class Way:
    """The operator's way to its cluster. `breaks` gets every request, with its number, from 1."""

    inner: Cluster
    breaks: Breaks = lambda _number, _request: None
    others: Any = None
    """The course: the other clients, and the past."""
    stage: str = ""
    effects: list[Effect] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    """The name of every Job and application that was made: a name is an attempt."""
    asked: list[Request] = field(default_factory=list)
    installing: str = ""
    """The kind of system that Helm is at work on, while it is."""
    answers: Callable[[Any], Cluster] = LiveCluster
    """What makes something of a broken answer: the operator's own client of that API server."""
    before: Callable[[], None] = lambda: None
    """Called before each request: an operator that shares the cluster waits here for its turn."""

    @contextmanager
    def helm(self, kind: str, spoken: Callable[[ClusterError], ClusterError]) -> Iterator[None]:
        """Requests in this context are Helm's; its errors are raised as Helm's."""
        self.installing = kind
        try:
            yield
        except ClusterError as error:
            raise spoken(error) from None
        finally:
            self.installing = ""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        found: Object | None = self._ask("get", kind, name, lambda to: to.get(kind, namespace, name))
        return found

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        return list(self._ask("list", kind, selector, lambda to: to.list(kind, namespace, selector, fields, most)))

    def create(self, made: Object) -> bool:
        def do(to: Cluster) -> bool:
            new = to.create(made)
            if new and to is self.inner and made["kind"] in WORK:
                self.effects.append(_effect(made))
                self.jobs.append(made["metadata"]["name"])
            return new

        return bool(self._ask("create", made["kind"], made["metadata"]["name"], do))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._ask("delete", kind, name, lambda to: to.delete(kind, namespace, name))

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        def do(to: Cluster) -> None:
            to.patch(kind, namespace, name, change)
            if to is self.inner and ((change.get("metadata") or {}).get("labels") or {}).get("status") == "deployed":
                self.effects.append(Effect("Release", "", self.installing))

        self._ask("patch", kind, name, do)

    def replace_status(self, made: Object) -> Object:
        return dict(self._ask("replace_status", made["kind"], "", lambda to: to.replace_status(made)))

    def _ask(self, verb: str, kind: str, name: str, do: Callable[[Cluster], Any]) -> Any:
        self.before()
        self.asked.append(Request(self.stage, verb, kind, name, bool(self.installing)))
        how = self.breaks(len(self.asked), self.asked[-1])
        if how is None:
            return do(self.inner)
        if how.meanwhile:
            operator.attrgetter(how.meanwhile)(self.others)()
        if how.old:
            return do(self.others.ago(how.old))
        said = None
        for _ in range(how.done):
            said = do(self.inner)
        if how.afterwards:
            getattr(self.others, how.afterwards)()
        if how.crashes:
            raise Crash
        return said if how.answer is None else do(self.answers(_Answers(how.answer)))


def _effect(made: Object) -> Effect:
    labels, notes = made["metadata"].get("labels") or {}, made["metadata"].get("annotations") or {}
    of = notes.get("dedup.dev/run") or labels.get("dedup.dev/system", "")
    return Effect(made["kind"], labels.get("dedup.dev/component", ""), of)


class _Answers:
    """A client of an API server that says one thing, whatever it is asked, in the words that API servers use."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.response = BytesIO(b"" if status == LOST else self.read())
        """The same as a body that comes in parts."""

    def param_serialize(self, *request: Any, **_more: Any) -> tuple[Any, ...]:
        return request

    def call_api(self, *_request: Any, _request_timeout: float) -> "_Answers":
        if self.status == LOST:
            raise ProtocolError("Connection aborted.", ConnectionResetError(104, "Connection reset by peer"))
        return self

    def getheader(self, _name: str) -> str | None:
        return None

    def read(self) -> bytes:
        reason, words = _WORDS[self.status]
        said = {"kind": "Status", "metadata": {}, "reason": reason, "message": words, "details": {"name": "a"}}
        return json.dumps(said).encode()


_WORDS: Final = {
    409: (
        "Conflict",
        'Operation cannot be fulfilled on resourcequotas "quota": the object has been modified; '
        "please apply your changes to the latest version and try again",
    ),
    404: ("NotFound", 'jobs.batch "a" not found'),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "Internal error occurred: as the campaign says"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}

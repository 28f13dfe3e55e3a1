"""Hostile systems that are there already: other people's brokers, and Secrets that go to them.

Any address may be asked, as any pod may ask it. What is shown there is another matter: a Secret goes only where its
owner let it go, by a label, and whoever labels one for experiments lets each of them show it to any address.
"""

from typing import Final

from tests.operator.hostile import KAFKA, PULSAR, AtApply, Gate, Hostile, harmless
from tests.operator.hostile_stores import HELMS, LABELLED, UNLABELLED

AT: Final = f"{KAFKA}/deploy/existing"
BOOTSTRAP: Final = (f"{AT}/bootstrap", "kafka.prod:9092")
NO_FAULTS: Final[tuple[str, object]] = ("spec/faults", [])
URLS: Final = {"serviceUrl": "pulsar://pulsar:6650", "adminUrl": "http://pulsar:8080"}

SYSTEMS: Final = (
    *(
        Hostile(f"brokers: {what}", tries, ((f"{AT}/bootstrap", address),))
        for what, address, tries in (
            ("with a setting", "a:1,ssl.key.location=/etc/passwd", "read a file of the pod"),
            ("of two lines", "a:1\nplugin.library.paths=/history/x.so", "load a library"),
            ("a variable", "$(AWS_SECRET_ACCESS_KEY):9092", "have a key filled in and sent"),
            ("a flag", "--output=/history/x:1", "give a program a flag"),
        )
    ),
    *(
        Hostile(f"a log-in: {what}", tries, (BOOTSTRAP, (f"{AT}/sasl", {"mechanism": "PLAIN", **more})))
        for what, more, tries in (
            ("in the open", {"password": "hunter2"}, "have it stand in the resource"),
            ("of another namespace", {"secretRef": {"name": "others/keys"}}, "read another namespace's Secret"),
            ("another key", {"secretRef": {"name": LABELLED, "key": "root"}}, "have another key put into a pod"),
            ("by a command", {"secretRef": {"name": LABELLED}, "kinit": "sh"}, "run a command"),
        )
    ),
    Hostile(
        "a password to brokers of theirs, in the open",
        "hear a password on the way",
        (NO_FAULTS, BOOTSTRAP, (f"{AT}/sasl", {"mechanism": "PLAIN", "secretRef": {"name": LABELLED}})),
    ),
    *(
        Hostile(
            f"a log-in at their brokers with {what}",
            "send it to an address of theirs",
            (NO_FAULTS, BOOTSTRAP, (f"{AT}/sasl", {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": name}})),
            Gate.STALLED,
            AtApply.ACCEPTED,
        )
        for what, name in (
            ("a Secret without a label", UNLABELLED),
            ("a Secret of Helm", HELMS),
            ("a Secret that has other keys", LABELLED),
        )
    ),
    harmless(
        "an address of theirs",
        "have brokers asked that others own",
        "a pod may ask any address; nothing is shown there, and no fault is injected",
        *(("spec/systems", [{"name": "k", "kafka": {}, "deploy": {"existing": {"bootstrap": "kafka.prod:9092"}}}]),),
        NO_FAULTS,
    ),
    Hostile(
        "a Pulsar's token in the open",
        "have it stand in the resource",
        ((f"{PULSAR}/deploy/existing", {**URLS, "token": "hunter2"}),),
    ),
)

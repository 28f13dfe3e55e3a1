"""Hostile places for artifacts: other people's Secrets, claims, buckets and addresses.

What a pod of the namespace could do as well is let through on purpose: mount any claim of the namespace, ask any
address. A store's keys are another matter: who may create pods may read every Secret of the namespace, who may create
experiments may not, so a Secret's owner has to consent by a label.
"""

from typing import Final

from tests.operator.hostile import AtApply, Gate, Hostile, harmless

S3: Final = "spec/artifacts/s3"
BUCKET: Final = (f"{S3}/bucket", "results")
PVC: Final = "spec/artifacts/pvc"
LABELLED: Final = "keys"
UNLABELLED: Final = "passwords"
HELMS: Final = "sh.helm.release.v1.theirs.v1"
"""Secrets that the tests' namespace has; only the first has the label."""

SECRETS: Final = (
    *(
        Hostile(f"a Secret: {what}", tries, (BUCKET, (f"{S3}/secretRef", reference)))
        for what, reference, tries in (
            ("of another namespace", {"name": "kube-system/keys"}, "read another namespace's Secret"),
            ("a way up", {"name": "../../kube-system/secrets/keys"}, "read another namespace's Secret"),
            ("a namespace beside it", {"name": "keys", "namespace": "kube-system"}, "another namespace's Secret"),
            ("a key of it", {"name": "keys", "key": "root-password"}, "have another key put into a pod"),
            ("optional", {"name": "keys", "optional": True}, "run without"),
            ("a selector", {"name": "keys", "labelSelector": {}}, "have any Secret taken"),
            ("a query", {"name": "keys?fieldManager=x"}, "change the operator's request"),
            ("all of them", {"name": ""}, "have all Secrets listed"),
            ("two", {"name": "keys,passwords"}, "have a second one read"),
            ("in capitals", {"name": "Keys"}, "pass a check that folds case"),
            ("too long", {"name": "k" * 254}, "break the request"),
            ("a variable", {"name": "$(SECRET)"}, "have it filled in"),
        )
    ),
    Hostile("a key in the open", "have it stand in the resource", (BUCKET, (f"{S3}/secretAccessKey", "hunter2"))),
    Hostile(
        "a Secret without a label",
        "use keys whose owner did not consent",
        (BUCKET, (f"{S3}/secretRef", {"name": UNLABELLED})),
        Gate.STALLED,
        AtApply.ACCEPTED,
    ),
    Hostile(
        "a Secret that is not there",
        "be the first to make it",
        (BUCKET, (f"{S3}/secretRef", {"name": "none"})),
        Gate.STALLED,
        AtApply.ACCEPTED,
    ),
    Hostile(
        "a Secret of Helm",
        "have a release's values read",
        (BUCKET, (f"{S3}/secretRef", {"name": HELMS})),
        Gate.STALLED,
        AtApply.ACCEPTED,
    ),
    harmless(
        "a Secret with a label, for another store",
        "have the keys sent to one's own server",
        "S3 signs with keys and never sends them, and their owner consented",
        *(BUCKET, (f"{S3}/secretRef", {"name": LABELLED}), (f"{S3}/endpoint", "http://evil.example")),
    ),
    harmless(
        "the administrator's bucket without his keys",
        "write with keys of the chart's settings",
        "an experiment's own store has its own keys or none",
        BUCKET,
    ),
)

PREFIXES: Final = (
    *(
        Hostile(f"a prefix: {what}", tries, (BUCKET, (f"{S3}/prefix", text)))
        for what, text, tries in (
            ("a way up", "../others", "write into another experiment's histories"),
            ("a way up inside", "a/../../others", "the same"),
            ("nothing but up", "..", "the same"),
            ("here", ".", "be shortened to nothing"),
            ("from the root", "/etc", "write to the pod's own files"),
            ("another store", "s3://others/x", "write into another bucket"),
            ("a gap", "a//b", "be read differently by two programs"),
            ("an end", "a/", "the same"),
            ("backslashes", "a\\..\\b", "climb elsewhere"),
            ("written otherwise", "a/%2e%2e/b", "climb once it is decoded"),
            ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have a key stand in a URI"),
            ("a template", "{{ .Values }}", "be filled in by Helm"),
            ("words", "a --keep /etc", "be read as further arguments"),
            ("two lines", "a\nb", "be read as two"),
            ("a question", "a?versionId=1", "change a request"),
            ("a pattern", "a*", "be read as many"),
            ("too long", "a" * 513, "break a key's bound"),
        )
    ),
    harmless(
        "a prefix that looks like a flag",
        "be read as a flag",
        "it stands within a URI",
        *(BUCKET, (f"{S3}/prefix", "-rf")),
    ),
    harmless(
        "the longest prefix and address",
        "break the objects",
        "their bounds are the resource's",
        *(BUCKET, (f"{S3}/prefix", "/".join(["a" * 7] * 64)), (f"{S3}/endpoint", f"https://{'a.' * 126}b:65535")),
    ),
)

BUCKETS: Final = tuple(
    Hostile(f"a bucket: {what}", tries, ((f"{S3}/bucket", text),))
    for what, text, tries in (
        ("a way up", "../b", "another bucket"),
        ("with a prefix", "others/x", "write beside one's folder"),
        ("a flag", "--endpoint-url=x", "be read as a flag"),
        ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have a key stand in a URI"),
        ("an ARN", "arn:aws:s3:::others", "another account's bucket"),
        ("with a password", "u:p@b", "be read as an address"),
    )
)

ADDRESSES: Final = (
    *(
        Hostile(f"an address: {what}", tries, (BUCKET, (f"{S3}/endpoint", text)))
        for what, text, tries in (
            ("a file", "file:///etc/passwd", "read a file of the pod"),
            ("another protocol", "gopher://store:70", "speak to what is no store"),
            ("with a password", "http://user:hunter2@store", "have it stand in the resource"),
            ("with a path", "http://store/admin?x=", "change requests"),
            ("with a fragment", "http://store#", "cut requests off"),
            ("a variable", "http://$(AWS_SECRET_ACCESS_KEY).evil", "have a key sent in a name"),
            ("a template", "http://{{ .Values }}", "be filled in by Helm"),
            ("two lines", "http://store\nX: y", "add a header"),
            ("a port that is none", "http://store:999999", "break clients"),
            ("in brackets", "http://[fd00:ec2::254]", "hide an address"),
            ("a look-alike", "http://st\u043ere", "look like another"),
        )
    ),
    *(
        harmless(f"an address: {what}", tries, because, BUCKET, (f"{S3}/endpoint", text))
        for what, text, tries, because in (
            ("the metadata service", "http://169.254.169.254", "ask for the node's keys", "any pod may ask it"),
            ("the API server", "https://kubernetes.default.svc", "ask as our account", "S3's client sends no token"),
            ("another namespace", "http://minio.others.svc:9000", "reach its store", "any pod reaches any Service"),
            (
                "the pod itself",
                "http://127.0.0.1:8474",
                "command the Toxiproxy",
                "it speaks no S3, and is the run's own",
            ),
            ("no name", "http://-", "break clients", "it is resolved by nobody, and the run ends in words"),
        )
    ),
    *(
        Hostile(f"a region: {what}", tries, (BUCKET, (f"{S3}/region", text)))
        for what, text, tries in (
            ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have a key stand in an address"),
            ("an address", "x.evil.com/", "be put into an address"),
        )
    ),
)

CLAIMS: Final = (
    *(
        Hostile(f"a claim: {what}", tries, ((PVC, claim),))
        for what, claim, tries in (
            ("a way up", {"claimName": "../theirs"}, "another namespace's claim"),
            ("of another namespace", {"claimName": "others/theirs"}, "another namespace's claim"),
            ("a namespace beside it", {"claimName": "c", "namespace": "others"}, "another namespace's claim"),
            ("a folder", {"claimName": "c", "folder": "../.."}, "another folder of the volume"),
            ("a sub-path", {"claimName": "c", "subPath": "../.."}, "another folder of the volume"),
            ("a path of the node", {"claimName": "c", "hostPath": "/"}, "mount the node's disk"),
            ("a variable", {"claimName": "$(CLAIM)"}, "have it filled in"),
        )
    ),
    Hostile("a path of the node", "mount the node's disk", (("spec/artifacts", {"hostPath": {"path": "/"}}),)),
    Hostile("an NFS", "mount another disk", (("spec/artifacts", {"nfs": {"server": "x", "path": "/"}}),)),
    Hostile("both", "have one checked and the other used", (BUCKET, (PVC, {"claimName": "c"}))),
    harmless(
        "somebody else's claim",
        "read and write their volume",
        "any pod of the namespace may mount it, and ours write below one folder of it",
        (PVC, {"claimName": "theirs"}),
    ),
)

STORES: Final = (*SECRETS, *PREFIXES, *BUCKETS, *ADDRESSES, *CLAIMS)

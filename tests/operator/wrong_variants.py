"""Wrong specs of variants, as tests/operator/wrong_specs.py has them for everything else."""

from typing import Final

from tests.operator.wrong import Wrong

VARIANTS: Final = (
    Wrong(
        "two variants of one name",
        (("spec/variants/1/name", "control"),),
        "another of the variants has this name",
        'spec.variants[1]: Duplicate value: {"name":"control"}',
    ),
    Wrong(
        "the switch the wrong way round",
        (("spec/variants/0/deduplication", "Enabled"), ("spec/variants/1/deduplication", "Disabled")),
        "is the control, without deduplication; write Disabled",
    ),
    Wrong(
        "a control with deduplication, like the treatment",
        (("spec/variants/0/deduplication", "Enabled"),),
        "is the control, without deduplication; write Disabled",
    ),
    Wrong(
        "a treatment without deduplication, like the control",
        (("spec/variants/1/deduplication", "Disabled"),),
        "is the treatment, with deduplication; write Enabled",
    ),
    Wrong(
        "a second treatment without deduplication",
        (("spec/variants/-", {"name": "most", "deduplication": "Disabled", "expect": "AtMostOnce"}),),
        "is the treatment, with deduplication; write Enabled",
    ),
)

RIGHT_VARIANTS: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    "a treatment alone, without deduplication": (
        *(("spec/variants/0/expect", "None"), ("spec/variants/1/deduplication", "Disabled")),
    ),
    "a control alone, with deduplication": (
        *(("spec/variants/0/deduplication", "Enabled"), ("spec/variants/1/expect", "AtLeastOnce")),
    ),
    "what promises nothing of duplicates, with and without deduplication, beside both": (
        ("spec/variants/-", {"name": "least", "deduplication": "Disabled", "expect": "AtLeastOnce"}),
        ("spec/variants/-", {"name": "odd", "deduplication": "Enabled", "expect": "None"}),
        ("spec/variants/-", {"name": "most", "deduplication": "Enabled", "expect": "AtMostOnce"}),
    ),
}

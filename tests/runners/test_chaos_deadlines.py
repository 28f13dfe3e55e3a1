"""NetworkPolicies past their deadline are removed, until all that one run makes have come and gone."""

from typing import Any

from dedup_runners.chaos import deadlines


def test_policies_past_their_deadline_are_found_and_others_left() -> None:
    def policy(name: str, deadline: str | None) -> dict[str, Any]:
        annotations = None if deadline is None else {deadlines.DEADLINE: deadline}
        return {"metadata": {"name": name, "annotations": annotations}}

    given = [policy("past", "99"), policy("now", "100"), policy("later", "101"), policy("mute", None)]
    assert deadlines.overdue(given, 100.5) == ["past", "now", "mute"]
    assert deadlines.overdue([policy("odd", "10²"), *given], 100.5) == ["odd", "past", "now", "mute"]


def test_who_minds_deadlines_ends_when_all_policies_of_its_run_have_come_and_gone() -> None:
    def policy(name: str, pod: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "ownerReferences": [{"kind": "Pod", "name": pod}]}}

    first, second = policy("one", "d-abc-x1y2z"), policy("two", "d-abc-x1y2z")
    others = [policy("another", "d-abd-x1y2z"), policy("longer", "d-abc-1-x1y2z"), {"metadata": {"name": "nobodys"}}]
    seen = set[str]()
    for there, over in [
        (others, False),
        ([*others, first], False),
        (others, False),
        ([second], False),
        ([first, second], False),
        (others, True),
        ([], True),
    ]:
        assert deadlines.over(there, "d-abc", 2, seen) is over, there
    assert not deadlines.over([], "d-abc", 1, set()), "none has come yet"

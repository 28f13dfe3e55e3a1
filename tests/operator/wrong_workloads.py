"""Wrong workloads, out of bounds or with parts that do not fit together; and right ones, which hardly differ."""

from typing import Final

from tests.operator.wrong import Wrong

WORKLOADS: Final = (
    Wrong("no messages", (("spec/workload/messages", 0),), "at least 1", "should be greater than or equal to 1"),
    Wrong(
        "too many messages",
        (("spec/workload/messages", 10**12),),
        "at most 10,000,000,000",
        "should be less than or equal to 10000000000",
    ),
    Wrong("nothing in flight", (("spec/workload/inFlight", 0),), "at least 1", "should be greater than or equal to 1"),
    Wrong(
        "too much in flight",
        (("spec/workload/inFlight", 1_000_001),),
        "at most 1,000,000",
        "should be less than or equal to 1000000",
    ),
    Wrong(
        "too many partitions",
        (("spec/workload", {"messages": 9999, "partitions": 1025}),),
        "at most 1,024",
        "should be less than or equal to 1024",
    ),
    Wrong(
        "more partitions than messages",
        (("spec/workload", {"messages": 1000, "partitions": 1001}),),
        "there are 1001 partitions and each gets at least one message; send more or use fewer partitions",
        "there are more partitions than messages, and each gets at least one message; send more or use fewer",
    ),
    Wrong(
        "more messages than can be sent in time",
        (("spec/workload/messagesPerSecond", 10), ("spec/timeouts", {"run": "100s"})),
        "so many messages take longer",
        "so many messages take longer at workload.messagesPerSecond; send fewer or more of them in a second, or",
    ),
    Wrong(
        "no messages in a second",
        (("spec/workload/messagesPerSecond", 0),),
        "at least 1",
        "should be greater than or equal to 1",
    ),
)

RIGHT_WORKLOADS: Final[dict[str, tuple[tuple[str, object], ...]]] = {
    "messages that can just be sent in time": (
        ("spec/workload/messagesPerSecond", 10),
        ("spec/timeouts", {"run": "101s"}),
    ),
    "no limit to the messages in a second": (("spec/workload/messagesPerSecond", None),),
    "one message a partition": (("spec/workload", {"messages": 1000, "partitions": 1000}),),
}

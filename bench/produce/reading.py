"""Our consumer, timed from its first connection until its history is closed; its config on standard input."""

import json
import sys
import time

from dedup.wire.manifests import ConsumerReport
from dedup_runners.configs import ConsumerConfig, read
from dedup_runners.consumer import consume

if __name__ == "__main__":
    config = read("-", ConsumerConfig)
    began = time.monotonic()
    consume(config)
    seconds = time.monotonic() - began
    report = ConsumerReport.model_validate_json((config.folder / ConsumerReport.FILE).read_bytes())
    if not report.complete:
        sys.exit(f"our consumer was not complete: {report.problems}")
    print(json.dumps({"seconds": seconds, "cpu_seconds": report.cpu_seconds}))

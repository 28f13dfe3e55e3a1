"""A producer's run in a test: what it is told, and what it leaves in its folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dedup.history.histories import same_columns
from dedup.wire.manifests import ProducerReport
from dedup_runners.configs import ProducerConfig

Make = Callable[..., ProducerConfig]


def config_of(bootstrap: str, folder: Path, **given: Any) -> ProducerConfig:
    """What an idempotent librdkafka is told that sends to a topic called as the folder, and what else is given."""
    endpoints = {"system": "kafka", "client_bootstrap": bootstrap, "direct_bootstrap": bootstrap, "brokers": []}
    told = {
        "run_id": "r1", "folder": str(folder), "endpoints": endpoints, "topic": folder.name,
        "library": "confluent-kafka", "deduplication": True, "producer_name": "r1-1", "delivery_timeout_s": 20.0,
    }  # fmt: skip
    return ProducerConfig.model_validate_json(json.dumps(told | given))


def rows(folder: Path, table: str, version: int = 2) -> list[dict[str, Any]]:
    """A table of the folder's history, of this version of the schema."""
    found: Any = pq.ParquetDataset(folder / table).read()
    assert same_columns(found.schema, table, version)
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


def report_of(folder: Path) -> ProducerReport:
    return ProducerReport.model_validate_json((folder / ProducerReport.FILE).read_bytes())

#!/bin/sh
# Makes lab/dedup_lab/clients/locks: the files of each version of a client for Python that an experiment may choose, with their
# hashes, for every Python and platform that there is a wheel for. Only versions without a lock are asked for.
set -eu
cd "$(dirname "$0")/.."

locks=lab/dedup_lab/clients/locks
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
.venv/bin/python -m venv "$away"
"$away/bin/python" -m pip --disable-pip-version-check --quiet install uv

.venv/bin/python -c '
from dedup.experiment.clients import CLIENTS
for client in CLIENTS.values():
    if client.is_installed:
        for version in client.versions:
            print(client.library, version)
' | while read -r library version; do
    [ ! -f "$locks/$library-$version.txt" ] || continue
    # Only the library itself: what it needs is installed (decision 073).
    echo "$library==$version" | "$away/bin/uv" pip compile - --universal --python-version 3.11 --generate-hashes --no-deps \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate --quiet --output-file "$locks/$library-$version.txt"
    echo "lock-clients: $library $version"
done

#!/bin/sh
# Makes requirements.lock from pyproject.toml: exact versions with hashes, for every Python from 3.11 on and every platform.
#
# uv resolves; it is installed into a virtual environment that is thrown away. Pins that are there already are kept where
# pyproject.toml still allows them; `UPGRADE=1 make lock` takes the newest of everything. The lock names no index, so
# that it works behind any mirror.
set -eu
cd "$(dirname "$0")/.."

python=$(sh scripts/prerequisites.sh)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
"$python" -m venv "$away"
"$away/bin/python" -m pip --disable-pip-version-check --quiet install uv

upgrade=
[ -z "${UPGRADE:-}" ] || upgrade=--upgrade
"$away/bin/uv" pip compile pyproject.toml --extra dev \
    --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header \
    --quiet $upgrade --output-file requirements.lock
echo "lock: requirements.lock holds $(grep -c '^[a-z0-9].*==' requirements.lock) packages"

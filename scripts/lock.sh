#!/bin/sh
# Makes requirements.lock from pyproject.toml: exact versions with hashes, for every Python from 3.11 on and every platform.
# Beside it, what each image installs: the same versions and hashes, only those that the image's extra needs.
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
compile() {
    "$away/bin/uv" pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --quiet "$@"
}

compile --extra dev $upgrade --output-file requirements.lock
for image in operator runner spark; do
    compile --extra "$image" --constraint requirements.lock --no-annotate \
        --output-file "requirements-$image.lock" --upgrade
done
echo "lock: requirements.lock holds $(grep -c '^[a-z0-9].*==' requirements.lock) packages"

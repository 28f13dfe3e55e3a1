#!/bin/sh
# Makes .venv: every package of requirements.lock at its locked version and hash, and this repository itself, editable.
#
# A stamp inside .venv remembers what it was made from, so that a second call returns at once, and a change of
# requirements.lock or pyproject.toml (or a moved clone: virtual environments cannot be moved) does the work again.
# The stamp is written last: an interrupted setup is simply done again.
set -eu
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/dedup-setup.stamp
made_from="$(cat requirements.lock pyproject.toml | cksum) $PWD"

python=$(sh scripts/prerequisites.sh)

is_usable() {
    "$venv/bin/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

is_moved() {
    [ -f "$stamp" ] && [ "$(cut -d' ' -f3- "$stamp")" != "$PWD" ]
}

if is_usable && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$made_from" ]; then
    exit 0
fi

if ! is_usable || is_moved; then
    echo "setup: making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
fi
rm -f "$stamp"

pip() {
    # pip asks again for a connection that fails, but not for a download that breaks off half way.
    for _ in 1 2 3; do
        "$venv/bin/python" -m pip --disable-pip-version-check --no-input --quiet "$@" && return 0
    done
    echo "setup: pip could not install what is locked, so $venv is incomplete; read its words above and call make setup again" >&2
    exit 1
}

echo "setup: installing $(grep -c '^[a-z0-9].*==' requirements.lock) locked packages into $venv (450 MB for Spark alone; a minute or more the first time)"
# Python compiles what it imports when it first does, which is a fraction of what is installed.
pip install --no-compile --require-hashes -r requirements.lock
echo "setup: installing this repository into $venv, editable"
pip install --no-deps --no-build-isolation -e .

echo "$made_from" >"$stamp"
echo "setup: done; the command is $venv/bin/dedup"

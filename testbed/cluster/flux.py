"""Flux: its two controllers as processes beside an API server, and a Git repository that they read.

The source-controller fetches a repository; the kustomize-controller applies a folder of it, waits until what it applied
is as its health checks want it, and only then goes on with what depends on it. Neither needs a pod: they are clients of
the API server, with the rights of the kubeconfig's user.
"""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

from dedup_lab.caches import Progress, silent
from dedup_lab.systems import labs
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free
from testbed.cluster import api_servers, binaries
from testbed.cluster.binaries import FLUX_KUSTOMIZE, FLUX_SOURCE

AUTHOR: Final = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")


def definitions() -> Iterator[dict[str, Any]]:
    """The definitions of its resources, which lie in its Go modules."""
    for program in (FLUX_SOURCE, FLUX_KUSTOMIZE):
        for path in sorted(binaries.sources(program).glob("config/crd/bases/*.yaml")):
            yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


@contextmanager
def running(kubeconfig: Path, logs: Path, progress: Progress = silent) -> Iterator[Lab]:
    """Both controllers. What they watch must be known to the API server. DedupError: a build that fails."""
    binaries.find_all((FLUX_SOURCE, FLUX_KUSTOMIZE), progress)
    with labs.create(logs) as lab:
        storage, *ports = free(5)
        environment = {"KUBECONFIG": str(kubeconfig), "RUNTIME_NAMESPACE": "default", **api_servers.direct()}
        address = f"{LOOPBACK}:{storage}"
        theirs = {
            FLUX_SOURCE: [
                f"--storage-path={lab.data('artifacts')}",
                f"--storage-addr={address}",
                f"--storage-adv-addr={address}",
            ],
            FLUX_KUSTOMIZE: ["--requeue-dependency=1s"],
        }
        for program, flags in theirs.items():
            listening = [f"--metrics-addr={LOOPBACK}:{ports.pop()}", f"--health-addr={LOOPBACK}:{ports.pop()}"]
            lab.start(program.name, [str(program.path), *listening, *flags], environment)
        yield lab


def commit(folder: Path, files: dict[str, str]) -> None:
    """Make a Git repository of these files, in one commit on `main`."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*AUTHOR, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=60)


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Serve the repositories below a folder by Git's own HTTP backend; yields the URL of the folder."""

    class Backend(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            environment = {
                **os.environ,
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=environment, capture_output=True, check=False, timeout=60
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer((LOOPBACK, 0), Backend) as server:
        threading.Thread(target=server.serve_forever, name="git", daemon=True).start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}"
        finally:
            server.shutdown()

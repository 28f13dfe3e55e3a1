"""What the interposer writes is on its way at once, whether the other side answers or not."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from tests.runners import guarded_brokers

from dedup_runners.interposer.connections import unbuffered

WRITES: Final = 5
BOUND_S: Final = 20.0


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_each_write_is_done_though_nobody_answers(tls: bool, tmp_path: Path) -> None:
    """A broker of Pulsar may have nothing to say for half a minute."""
    assert asyncio.run(asyncio.wait_for(written(tmp_path, tls=tls), BOUND_S)) == b"x" * WRITES


async def written(folder: Path, *, tls: bool) -> bytes:
    """What a broker that only listens has heard when all is written."""
    trusting = serving = None
    if tls:
        serving, trusting = guarded_brokers.serving(folder), guarded_brokers.trusting(folder)
        trusting.check_hostname = False
    heard = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(await reader.readexactly(WRITES))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0, ssl=serving) as server:
        host, port = server.sockets[0].getsockname()
        _, writer = await asyncio.open_connection(host, port, ssl=trusting)
        unbuffered(writer)
        for _ in range(WRITES):
            writer.write(b"x")
            await writer.drain()
        found: bytes = await heard
        writer.transport.abort()
    return found

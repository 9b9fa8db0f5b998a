"""A TCP proxy in a process of its own: it delays, limits the rate, cuts connections at any byte, stops and heals.

It forwards each connection to a worker. Told over its standard input, in lines of JSON, each with a line as answer:

    {"delay": 0.05}       every byte arrives so many seconds later
    {"rate": 100000}      bytes per second, in each direction
    {"cuts": [[70, "down"], …]}   the next connections are reset after so many bytes from the worker, or "up", to it
    {"stopped": ["down"]}         nothing more comes from the worker; ["up", "down"] is a partition, [] heals it
"""

import asyncio
import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PIECE = 16 << 10
QUEUE = 64  # pieces on their way: what a network holds


class Relay:
    def __init__(self, port):
        self.port = port
        self.delay, self.rate, self.cuts, self.stopped = 0.0, 0, [], []
        self.connections = 0
        self.changed = asyncio.Event()

    def tell(self, settings):
        for name, value in settings.items():
            setattr(self, name, value)
        self.changed.set()
        self.changed = asyncio.Event()

    async def accept(self, trainer_reader, trainer_writer):
        self.connections += 1
        cut = self.cuts.pop(0) if self.cuts else [None, ""]
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            trainer_writer.transport.abort()
            return
        ends = [trainer_writer, writer]
        pumps = [
            self.pump(trainer_reader, writer, "up", cut[0] if cut[1] == "up" else None),
            self.pump(reader, trainer_writer, "down", cut[0] if cut[1] == "down" else None),
        ]
        tasks = [asyncio.create_task(pump) for pump in pumps]
        with suppress(OSError, EOFError):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in ends:
            end.transport.abort()

    async def pump(self, reader, writer, direction, cut):
        queue = asyncio.Queue(QUEUE)
        reading = asyncio.create_task(self.read(reader, queue))
        passed = 0
        try:
            while (entry := await queue.get()) is not None:
                due, data = entry
                await asyncio.sleep(max(0.0, due + self.delay - time.monotonic()))
                while direction in self.stopped:
                    await self.changed.wait()
                data = data if cut is None else data[: cut - passed]
                writer.write(data)
                await writer.drain()
                passed += len(data)
                if cut is not None and passed >= cut:
                    return
                if self.rate:
                    await asyncio.sleep(len(data) / self.rate)
        except OSError:
            return
        finally:
            reading.cancel()

    async def read(self, reader, queue):
        with suppress(OSError):
            while data := await reader.read(PIECE):
                await queue.put((time.monotonic(), data))
        await queue.put(None)


async def run(port):
    relay = Relay(port)
    server = await asyncio.start_server(relay.accept, "127.0.0.1", 0)
    print(json.dumps(server.sockets[0].getsockname()[1]), flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        relay.tell(json.loads(line))
        print(json.dumps(relay.connections), flush=True)


class Proxy:
    """A proxy for the worker at an address; `address` is its own."""

    def __init__(self, worker, **settings):
        words = [sys.executable, str(Path(__file__)), worker.rpartition(":")[2]]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = f"tcp://127.0.0.1:{json.loads(self._process.stdout.readline())}"
        self.tell(**settings)

    def tell(self, **settings):
        """Change how it behaves; returns how many connections there were."""
        self._process.stdin.write(json.dumps(settings) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1])))

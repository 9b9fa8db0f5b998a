"""The same shards from a disk, from a web server, and out of a shell command: only the address differs.

python examples/anywhere.py
"""

import functools
import http.server
import tempfile
import threading
from contextlib import contextmanager

from shapes import samples

import webdataset as wds


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(folder):
    """The address of a web server, on this machine alone, that offers a folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main():
    with tempfile.TemporaryDirectory() as folder, served(folder) as address:
        with wds.ShardWriter(f"{folder}/shapes-%03d.tar", maxcount=20) as sink:
            for sample in samples(60):
                sink.write(sample)
        results = {}
        for place in (
            f"{folder}/shapes-{{000..002}}.tar",
            f"{address}/shapes-{{000..002}}.tar",
            f"pipe:cat {folder}/shapes-{{000..002}}.tar",
            f"pipe:gzip -c {folder}/shapes-{{000..002}}.tar | gzip -dc",
        ):
            dataset = wds.WebDataset(place, shardshuffle=False).decode().to_tuple("__key__", "json")
            results[place] = [(key, about["shape"]) for key, about in dataset]
            print(f"{len(results[place])} samples from {place.replace(folder, '…')}")
        assert len(set(map(str, results.values()))) == 1


if __name__ == "__main__":
    main()

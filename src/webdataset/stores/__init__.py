"""stores: local double."""

import io, os


class _W(io.FileIO):
    def __init__(self, path):
        self.final = path
        self.temp = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.tmp")
        self.done = False
        super().__init__(self.temp, "w")

    def close(self):
        if not self.closed:
            super().close()
            if not self.done:
                self.done = True
                os.replace(self.temp, self.final)

    def abort(self):
        if not self.done:
            self.done = True
            super().close()
            os.unlink(self.temp)

    def __exit__(self, t, v, b):
        self.abort() if t else self.close()

    def __del__(self):
        if not self.done:
            self.abort()


def open_write(url):
    return _W(os.fspath(url))

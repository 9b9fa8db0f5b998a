"""A worker that answers anything."""

import threading
from contextlib import contextmanager

import zmq


@contextmanager
def false_worker(answer):
    """A worker that answers what a function says: (message, offer of a real worker) → frames, or None."""
    context, stop = zmq.Context(), threading.Event()
    router = context.socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")

    def talk():
        while not stop.is_set():
            if router.poll(50):
                who, *message = router.recv_multipart()
                for frames in answer(message) or []:
                    router.send_multipart([who, *frames])
        context.destroy(linger=0)

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        stop.set()
        thread.join()

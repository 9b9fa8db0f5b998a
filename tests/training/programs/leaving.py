"""How a rank ends when it has told what it trained on."""

import os
import sys


def leave():
    """End at once, without the end of the interpreter.

    A thread of gloo may drop the last tensor of a collective while Python ends. It then asks for the interpreter, which
    ends the thread, and C++ aborts the process: torchrun reports a failed rank although its training was complete.
    `destroy_process_group` does not help, because DistributedDataParallel keeps the group alive.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)

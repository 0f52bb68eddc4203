"""Tasks of tests of the paper's runner, in a file that imports nothing slow: every process that runs them reads it."""

import os
import signal
import time


def execute(task):
    """What tasks of these tests do."""
    match task.system:
        case "error":
            raise ValueError(f"nothing to learn from {task.data}")
        case "memory":
            raise MemoryError("too much")
        case "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            time.sleep(60)
        case "slow":
            return {"seconds": 1e9}
    return {"square": task.seed**2, "process": os.getpid()}

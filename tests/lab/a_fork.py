"""A program for test_forks: it says what it sees of itself, and ends as it is asked to."""

import atexit
import json
import os
import signal
import sys

if __name__ == "__main__":
    deed = sys.argv[1]
    print(
        json.dumps(
            {
                "arguments": sys.argv[1:],
                "told": sys.stdin.read(),
                "folder": os.getcwd(),
                "leads its session": os.getsid(0) == os.getpid(),
                "given": os.environ.get("GIVEN"),
                "variables": sorted({*os.environ} - {"PYTHONUNBUFFERED"}),
            }
        )
    )
    match deed:
        case "end":
            atexit.register(print, "it ends")
            sys.exit(int(sys.argv[2]))
        case "leave":
            os._exit(int(sys.argv[2]))
        case "fail":
            raise ValueError("this one fails")
        case "wait":
            from dedup.process.orphans import leave_with_parent

            leave_with_parent()
            print("waits", flush=True)
            signal.pause()

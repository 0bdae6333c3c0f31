"""What tests/testing/test_module_forks.py runs as forks."""

import os
import signal
import sys
import time


def main() -> None:
    """Do what the first argument says; without any, say a line of the input in capitals."""
    match sys.argv[1:]:
        case []:
            print(sys.stdin.readline().strip().upper(), flush=True)
            signal.pause()
        case ["wait"]:
            signal.pause()
        case ["busy"]:
            while time.process_time() < 0.1:
                pass
        case ["fail"]:
            raise ValueError("fail")
        case _:
            print(sys.argv[1:], os.getcwd(), dict(os.environ), __name__)
            print("it was told", file=sys.stderr)
            sys.exit(int(sys.argv[1]))


if __name__ == "__main__":
    main()

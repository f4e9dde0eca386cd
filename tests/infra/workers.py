"""``python -m tests.infra.workers BEHAVIOUR ...``: workers that start in no time, for the fleet.

Their first argument is the fleet's own ``--leave-with-parent``; the second says how they behave.
"""

import os
import subprocess
import sys
import threading

ANY = 77


def main(arguments: list[str]) -> None:
    behaviour = arguments[1]
    if behaviour == "fail":
        sys.stderr.write("Traceback\nImportError: no module named torch\n\n")
        sys.exit(ANY)
    if behaviour == "deaf":
        threading.Event().wait()
    if behaviour == "parent":
        command = [sys.executable, "-c", "import signal; signal.pause()"]
        grandchild = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        sys.stdout.write(f"{grandchild.pid}\n")
        sys.stdout.flush()
        threading.Event().wait()
    sys.stdout.write(os.environ["NAME"] + "\n")  # noqa: TID251 -- the child's own environment
    sys.stdout.flush()
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    main(sys.argv[1:])

"""Process 1 of a cluster's namespaces: it keeps running, and reaps ended processes.

A process whose parent has ended becomes a child of process 1, and stays a zombie until that asks how it ended. One that
says that it will never ask (SIGCHLD ignored) has the kernel forget them at once. This one does nothing else: when it
is killed, everything in its namespaces is.
"""

import signal

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    signal.pause()

"""Runs a program on a terminal of its own. Standard input is typed there, and SIGUSR1 presses Ctrl+C; what the program
writes goes to standard output."""
import os
import pty
import signal
import sys
import threading

child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGUSR1, lambda *_: os.write(terminal, b"\x03"))
# A test that is broken off must not leave the program behind.
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))


def type_input():
    while keys := os.read(0, 65536):
        os.write(terminal, keys)


threading.Thread(target=type_input, daemon=True).start()
while True:
    try:
        output = os.read(terminal, 65536)
    except OSError:
        break
    if not output:
        break
    os.write(1, output)
# Keys that are pressed now reach nobody, and must not end this process instead.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)

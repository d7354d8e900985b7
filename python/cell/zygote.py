"""The zygote: imports what cells may use once, then forks a sealed child for each call.

It talks to its host over three channels. Standard input carries one line of settings, then lines `kill <id>`; when it
ends, the host is gone and everything ends. Standard output has a line `module …` for each module that cannot be had,
then `ready`, then for each call `exit <id> …` with how the child ended. Calls arrive as connections to a socket in the
abstract namespace (a file where there is none): the first 8 bytes are the id, and only the sealed child reads what
follows. The zygote itself never reads a byte of a tenant's data, because every later child inherits its memory.
"""

import gc
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWN_PACKAGES = ("svc", "cell")
ID_BYTES = 8
EXIT_CRASHED, EXIT_NOT_SEALED, EXIT_NOT_FORKED = 70, 71, 72


class OwnPackages:
    """Imports `svc` and `cell` under short file names, so that nothing shows where the service is installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in OWN_PACKAGES:
            return None
        relative = name.replace(".", "/")
        package = os.path.isdir(os.path.join(ROOT, relative))
        origin = relative + ("/__init__.py" if package else ".py")
        if not package and not os.path.isfile(os.path.join(ROOT, origin)):
            return None
        loader: Any = self
        return importlib.util.spec_from_loader(name, loader, origin=origin, is_package=package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        origin = module.__spec__.origin
        path = os.path.join(ROOT, origin)
        source = b""
        if os.path.isfile(path):
            with open(path, "rb") as file:
                source = file.read()
        exec(compile(source, origin, "exec", dont_inherit=True), module.__dict__)


class NoOtherModules:
    """The only import finder of a sealed child: only what is loaded already can be imported."""

    def find_spec(self, name, path=None, target=None):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class Zygote:
    def __init__(self, settings):
        os.putenv("TZ", "UTC0")
        time.tzset()
        sys.meta_path.insert(0, OwnPackages())
        from cell.preload import preload
        from cell.seal import Seal

        self.seal = Seal(settings["memory_mb"], settings["cpu_seconds"], settings["sandbox"])
        # Also ends when its input does, so a host that is gone by now is noticed.
        self.seal.die_with_parent(os.getppid())
        self.runner, problems = preload(ROOT, settings.get("preload", ()), settings.get("modules", ()))
        for problem in problems:
            self.write_line("module " + json.dumps(problem))
        self.host_pid = settings["host_pid"]
        self.children = {}
        # Calls that were killed before their connection was accepted.
        self.cancelled = set()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address = settings["address"]
        self.listener.bind("\0" + address[1:] if address.startswith("@") else address)
        self.listener.listen(128)
        self.wake_read, self.wake_write = socket.socketpair()
        for end in (self.wake_read, self.wake_write):
            end.setblocking(False)
        self.commands = b""

    def hide_traces(self):
        # Python itself adds a locale to an empty environment.
        os.environ.clear()
        sys.argv[:] = ["cell"]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = ["cell"]
        if self.seal.sealed:
            sys.path.clear()
            sys.path_hooks.clear()
            sys.path_importer_cache.clear()
            sys.meta_path[:] = [NoOtherModules()]
            del globals()["__file__"]

    def serve(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write.fileno(), warn_on_full_buffer=False)
        self.hide_traces()
        self.runner.prewarm()
        gc.collect()
        gc.disable()
        gc.freeze()
        self.seal.measure()
        self.write_line("ready {}.{}.{}".format(*sys.version_info))
        poll = select.poll()
        for descriptor in (0, self.listener.fileno(), self.wake_read.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == 0:
                    if not self.handle_commands():
                        return
                elif descriptor == self.listener.fileno():
                    self.accept()
                else:
                    self.reap()

    def write_line(self, line):
        os.write(1, line.encode() + b"\n")

    def report_exit(self, call, code=0, signal_number=0, cpu_ms=0):
        self.write_line(f"exit {call.decode()} {code} {signal_number:d} {cpu_ms}")

    def handle_commands(self):
        data = os.read(0, 65536)
        if not data:
            return False
        *lines, self.commands = (self.commands + data).split(b"\n")
        for line in lines:
            if line.startswith(b"kill "):
                self.kill(line[5:])
        return True

    def kill(self, call):
        for pid, id in self.children.items():
            if id == call:
                os.kill(pid, signal.SIGKILL)
                try:
                    os.killpg(pid, signal.SIGKILL)
                except OSError:
                    pass  # killed before it had a group of its own
                return
        self.cancelled.add(call)

    def accept(self):
        connection, _ = self.listener.accept()
        with connection:
            if not self.is_host(connection):
                return
            call = connection.recv(ID_BYTES, socket.MSG_WAITALL)
            if len(call) != ID_BYTES:
                return
            call = b"%d" % struct.unpack("<Q", call)[0]
            if call in self.cancelled:
                self.cancelled.discard(call)
                self.report_exit(call, signal_number=signal.SIGKILL)
                return
            try:
                pid = os.fork()
            except OSError:
                self.report_exit(call, EXIT_NOT_FORKED)
                return
            if pid == 0:
                self.run_child(connection.fileno())
            self.children[pid] = call

    def is_host(self, connection):
        """Any process on the machine can connect to an abstract socket; only the host may use this one."""
        if not hasattr(socket, "SO_PEERCRED"):
            return True
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return pid == self.host_pid

    def run_child(self, descriptor):
        code = EXIT_CRASHED
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            try:
                self.seal.enter(descriptor)
            except BaseException as error:
                self.runner.report_unsealed(self.seal.channel, error)
                os._exit(EXIT_NOT_SEALED)
            gc.enable()
            # Records are made and dropped by the million and hold no cycles: looking for one every 700 is wasted time.
            gc.set_threshold(50_000, 20, 20)
            code = self.runner.main()
        finally:
            os._exit(code)

    def reap(self):
        try:
            while self.wake_read.recv(4096):
                pass
        except BlockingIOError:
            pass
        while self.children:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            call = self.children.pop(pid, None)
            if call is not None:
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
                cpu_ms = int((usage.ru_utime + usage.ru_stime) * 1000)
                self.report_exit(call, code, number, cpu_ms)


def read_line():
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            os._exit(0)
        line += byte
    return line


if __name__ == "__main__":
    Zygote(json.loads(read_line())).serve()
    os._exit(0)

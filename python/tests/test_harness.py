import socket
import unittest

import harness  # noqa: F401  installs the guard


class LocalOnly(unittest.TestCase):
    def test_no_test_reaches_outside_this_machine(self):
        for reach in (
            lambda: socket.getaddrinfo("api.example", 80),
            lambda: socket.gethostbyname("api.example"),
            lambda: socket.create_connection(("192.0.2.1", 9), timeout=0.1),
        ):
            with self.assertRaisesRegex(AssertionError, "only addresses of this machine"):
                reach()
        self.assertTrue(socket.getaddrinfo("localhost", 80))


if __name__ == "__main__":
    unittest.main()

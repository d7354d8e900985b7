"""Checks before parsing: code that would take the parser more than a second, or overflow its stack, is refused."""

from __future__ import annotations

import re

MAX_BYTES = 512 * 1024
MAX_LINES = 20_000
MAX_BRACKETS = 60
MAX_INDENT = 40
# Words and symbols. The parser recurses or makes a node for each, so their number bounds its time.
MAX_TOKENS = 80_000

# An unterminated string ends with its line, or with the code. No branch can fail once it has begun, so the scan takes
# linear time for any input.
_TOKEN = re.compile(
    r'''(?P<text>"""(?:[^"\\]+|\\.|"(?!""))*(?:"""|\\?\Z)'''
    r"""|'''(?:[^'\\]+|\\.|'(?!''))*(?:'''|\\?\Z)"""
    r"""|"(?:[^"\\\n]+|\\.)*(?:"|\\?$|\\?\Z)|'(?:[^'\\\n]+|\\.)*(?:'|\\?$|\\?\Z))"""
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<open>[(\[{])"
    r"|(?P<close>[)\]}])"
    r"|(?P<newline>\n[ \t]*)"
    r"|(?P<word>\w+)"
    r"|(?P<sign>[^\s\w])",
    re.DOTALL | re.MULTILINE,
)


def find_preflight_error(code: str) -> tuple[int, int, str] | None:
    """Line, column and message of what is wrong before parsing, or None."""
    try:
        size = len(code.encode())
    except UnicodeEncodeError as error:
        line = code.count("\n", 0, error.start) + 1
        return line, _column(code, error.start), "the code contains a lone surrogate, which is not a character"
    if size > MAX_BYTES:
        return 1, 0, f"the code has {size} bytes; at most {MAX_BYTES} ({MAX_BYTES // 1024} KB) are allowed"
    nul = code.find("\0")
    if nul >= 0:
        return code.count("\n", 0, nul) + 1, _column(code, nul), "the code contains a NUL byte"
    lines = code.count("\n") + 1
    if lines > MAX_LINES:
        return MAX_LINES + 1, 0, f"the code has {lines} lines; at most {MAX_LINES} are allowed"
    return _scan(code)


def _scan(code: str) -> tuple[int, int, str] | None:
    depth = tokens = 0
    indents = [0]
    for match in _TOKEN.finditer(code):
        kind = match.lastgroup
        if kind == "open":
            depth += 1
            if depth > MAX_BRACKETS:
                return _at(code, match.start(), f"brackets are nested deeper than {MAX_BRACKETS} levels")
        elif kind == "close":
            depth = max(depth - 1, 0)
        elif kind == "newline" and not depth:
            indent = len(match.group()) - 1
            after = code[match.end() : match.end() + 1]
            if after in ("\n", "\r", "#", ""):
                continue
            while indents[-1] > indent:
                indents.pop()
            if indent > indents[-1]:
                indents.append(indent)
                if len(indents) > MAX_INDENT:
                    return _at(code, match.end(), f"blocks are nested deeper than {MAX_INDENT} levels")
        tokens += 1
        if tokens > MAX_TOKENS:
            return _at(code, match.start(), f"the code has more than {MAX_TOKENS} words and symbols")
    return None


def _at(code: str, position: int, message: str) -> tuple[int, int, str]:
    return code.count("\n", 0, position) + 1, _column(code, position), message


def _column(code: str, position: int) -> int:
    return position - (code.rfind("\n", 0, position) + 1)

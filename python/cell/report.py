"""How a failure of an author's code is reported to its owner: type, text, their own lines, and the kind of failure."""

import traceback
from typing import Optional

from svc.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    LimitExceeded,
    StatusError,
    Timeout,
    UnknownHost,
)

SOURCE_FILE = "source.py"


class JobError(Exception):
    """A failure with a message of the platform's own. `kind` is one of the host's failure kinds."""

    def __init__(self, text, kind="source"):
        super().__init__(text)
        self.kind = kind


def author_traceback(error):
    """The traceback with the frames of the author's file only."""
    report = traceback.TracebackException.from_exception(error, capture_locals=False)
    seen = set()
    waiting: list[Optional[traceback.TracebackException]] = [report]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        own = [frame for frame in each.stack if frame.filename == SOURCE_FILE]
        each.stack = traceback.StackSummary.from_list(own)
        waiting += [each.__cause__, each.__context__]
        waiting += getattr(each, "exceptions", None) or []
    return "".join(report.format())


def describe(error):
    """An ERROR frame's content. str() of an exception runs the author's code, so it may fail or never return."""
    kind, transient = classify(error)
    try:
        text = str(error)
        # A message of the platform's own has no line of the author's to show.
        trace = "" if isinstance(error, JobError) else author_traceback(error)
    except Exception as second:
        text = trace = f"(its message cannot be shown: {type(second).__name__})"
    if isinstance(error, SystemExit):
        text = f"the source ended itself with exit code {text}"
    return {
        "kind": kind,
        "type": "ValueError" if isinstance(error, JobError) else type(error).__name__[:200],
        "text": text[:4000].encode("utf-8", "replace").decode(),
        "traceback": trace[-16000:].encode("utf-8", "replace").decode(),
        "transient": transient,
    }


def classify(error):
    """The failure kind for the host, and whether a retry may succeed."""
    if isinstance(error, JobError):
        return error.kind, False
    if isinstance(error, ConfigError):
        return "config", False
    if isinstance(error, StatusError):
        status = getattr(error.response, "status_code", 0)
        if status in (401, 403):
            return "auth", False
        if status == 429:
            return "rate_limited", True
        return "source", status >= 500
    if isinstance(error, AuthenticationFailed):
        return "auth", False
    if isinstance(error, LimitExceeded):
        return "limit", False
    if isinstance(error, UnknownHost):
        return "source", False
    return "source", isinstance(error, (ConnectionFailed, Timeout))

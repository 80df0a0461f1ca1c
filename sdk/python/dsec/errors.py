"""Failures, with the stable codes of the system."""


class DsecError(Exception):
    """A refusal. `code` is stable (such as MEMORY_FULL); `status` is the HTTP status, or None where no answer came."""

    def __init__(self, code, message, status=None, request_id=None, details=None):
        super().__init__("%s: %s" % (code, message))
        self.code = code
        self.message = message
        self.status = status
        self.request_id = request_id
        self.details = details or {}


class Unreachable(DsecError):
    """The sandbox's socket gave no answer. A write that was under way may have been made."""

    def __init__(self, message):
        super().__init__("SOCKET_UNREACHABLE", message)


class Conflict(DsecError):
    """Somebody else changed the entry in between; nothing was written. Read it again and repeat the change."""


class ValueRefused(DsecError, TypeError):
    """JSON cannot carry the value without changing it."""

    def __init__(self, message, **rest):
        super().__init__("MEMORY_VALUE_REFUSED", message, **rest)


class UnrecordedChange(RuntimeWarning):
    """A list or dict was changed after it was stored, but what is stored is a copy: the memory does not have the change."""

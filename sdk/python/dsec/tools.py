"""HTTP/1.1 over the sandbox's Unix socket, the only way out of it."""

import http.client
import json
import os
import select
import socket
import threading
import weakref
from urllib.parse import quote, urlencode

from dsec.errors import Conflict, DsecError, Unreachable, ValueRefused

DEFAULT_SOCKET = "/run/dsec/tool.sock"


class Response:
    """An answer that was no error: `status`, `headers` (lower-case names), `body` (bytes)."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


class Client:
    """One kept connection. Threads take turns; a forked child opens its own, whatever the threads of its parent do.

    The socket's path is `path`, or the environment's DSEC_SOCKET, or /run/dsec/tool.sock. `timeout_s` bounds each
    silence of the other side, not the whole call.
    """

    def __init__(self, path=None, timeout_s=60.0):
        self._path = path or os.environ.get("DSEC_SOCKET") or DEFAULT_SOCKET
        self._timeout_s = timeout_s
        self._connection = None
        self._lock = threading.Lock()
        _clients.add(self)

    def request(self, method, path, body=None, headers=None, query=None):
        """Sends one request and returns its Response; raises DsecError for an answer of 400 and above.

        `path` is escaped already (see `segment`), `query` is a dict whose None values are left out. A request is
        sent once: whoever repeats it knows whether that is safe.
        """
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            path = path + "?" + urlencode(given, quote_via=quote, errors="strict")
        with self._lock:
            status, answered, content = self._exchange(method, path, body, headers or {})
        if status >= 400:
            raise _refusal(status, content)
        return Response(status, answered, content)

    def close(self):
        with self._lock:
            self._drop()

    def apart(self):
        """Another client of the same socket, for a call that waits so long that others must not wait with it."""
        return Client(self._path, self._timeout_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _exchange(self, method, path, body, headers):
        connection = self._connected()
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
            answered = {name.lower(): value for name, value in answer.getheaders()}
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise Unreachable(
                "%s %s on %s: %s; is this program running inside a sandbox?"
                % (method, path[:200], self._path, error or type(error).__name__)
            ) from error
        except BaseException:
            # An interrupt in the middle leaves half an answer in the connection.
            self._drop()
            raise
        if answer.will_close:
            self._drop()
        return answer.status, answered, content

    def _connected(self):
        if self._connection is not None and _ended(self._connection.sock):
            self._drop()
        if self._connection is None:
            self._connection = _UnixConnection(self._path, self._timeout_s)
        return self._connection

    def _drop(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _start_in_child(self):
        # A thread that is not here may have held the lock.
        self._lock = threading.Lock()
        connection, self._connection = self._connection, None
        sock = None if connection is None else connection.sock
        if sock is not None and sock.fileno() >= 0:
            # The parent goes on using its connection; only our descriptor of it is closed, and what that thread was
            # reading is not touched, for it may be locked as well.
            os.close(sock.detach())


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout_s):
        super().__init__("dsec", timeout=timeout_s)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except BaseException:
            self.sock.close()
            raise


def segment(name):
    """A name as one segment of a path: every byte but letters, digits and `-._~` is escaped (RFC 3986)."""
    return quote(name, safe="", errors="strict")


def _ended(sock):
    """Whether the other side closed a connection that waits: there is something to read where nothing is due."""
    if sock is None:
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _refusal(status, content):
    try:
        error = json.loads(content)["error"]
        code, message = error["code"], error["message"]
        rest = {"status": status, "request_id": error.get("request_id"), "details": error.get("details")}
    except (ValueError, KeyError, TypeError):
        return DsecError("UNEXPECTED_ANSWER", content[:500].decode("utf-8", "replace"), status=status)
    if code == "MEMORY_VALUE_REFUSED":
        return ValueRefused(message, **rest)
    if code == "MEMORY_VERSION_CONFLICT":
        return Conflict(code, message, **rest)
    return DsecError(code, message, **rest)


_clients = weakref.WeakSet()


def _start_in_child():
    for client in list(_clients):
        client._start_in_child()


os.register_at_fork(after_in_child=_start_in_child)

_default = None


def default_client():
    """The client that everything shares which was given no other."""
    global _default
    if _default is None:
        _default = Client()
    return _default


def request(method, path, body=None, headers=None, query=None):
    """One request on the shared client."""
    return default_client().request(method, path, body, headers, query)

"""Memory that outlives the sandbox, as a dict whose contents keep their types and whose changes cannot be lost.

    from dsec.memory import Memory

    memory = Memory()
    memory["plan"] = {"steps": []}
    memory["plan"]["steps"].append("look up the flight")    # stored, as every change in place is

Each read and write is a request to the executor, which records it with the line of the program that made it. A change
that another sandbox got ahead of raises Conflict and writes nothing; `change` repeats it.
"""

import atexit
import os
import sys
import threading
import warnings
import weakref
from collections.abc import MutableMapping
from urllib.parse import quote

from dsec import tools
from dsec.errors import Conflict, DsecError, UnrecordedChange
from dsec.recording import Tree, plain
from dsec.values import dump, load

__all__ = ["Memory", "Conflict", "UnrecordedChange"]

_NOTHING = object()

# Of the lists and dicts that were stored as copies, so many of the newest are watched for later changes, for each key.
_WATCHED = 64

# For these a change is not tried again; after all others it may be stored later.
_NEVER_STORED = {"MEMORY_VERSION_CONFLICT", "MEMORY_VALUE_REFUSED", "BODY_TOO_LARGE", "FORBIDDEN"}


class Memory(MutableMapping):
    """The task's own memory, or with `namespace` one that it shares with others and was granted.

    With `strict` (the default) a value that JSON would change is refused; see `dsec.values.dump`.
    """

    def __init__(self, namespace=None, client=None, strict=True):
        if not (namespace is None or isinstance(namespace, str)):
            raise TypeError("namespace must be the name of a shared memory or None, not %r" % (namespace,))
        self._namespace = namespace
        self._client = client or tools.default_client()
        self._strict = strict
        self._lock = threading.RLock()
        self._live = {}
        self._watched = {}
        _memories.add(self)

    # Two views of one memory are two objects; comparing contents would read all of it.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # --- the mapping

    def __getitem__(self, key):
        """The value. Lists and dicts are live: what changes in them is stored, and asking again gives the same object
        as long as nobody else has written the key."""
        with self._lock:
            self._check(key)
            live = self._live.get(key)
            answer = self._get(key, known=live.version if live else None)
            if answer.status == 304:
                return live.tree.value
            value, version = load(answer.body), _version(answer)
            if not isinstance(value, (list, dict)):
                self._live.pop(key, None)
                return value
            live = self._live[key] = _Live(self, key, value, version)
            return live.tree.value

    def __setitem__(self, key, value):
        self.set(key, value)

    def __delitem__(self, key):
        with self._lock:
            self._forget(key)
            try:
                self._send("DELETE", key, operation="del")
            except DsecError as error:
                raise _missing(error, key) from None

    def __iter__(self):
        return self.keys_with("")

    def __len__(self):
        return sum(1 for _ in self)

    def __contains__(self, key):
        try:
            self._send("HEAD", key, operation="in")
        except DsecError as error:
            if error.status == 404:
                return False
            raise
        return True

    def pop(self, key, default=_NOTHING):
        """Removes the key and returns the value that it had when it was removed."""
        while True:
            try:
                value, version = self.read(key)
            except KeyError:
                if default is _NOTHING:
                    raise
                return default
            try:
                with self._lock:
                    self._forget(key)
                    self._send("DELETE", key, headers=_if_match(version), operation="pop")
                return value
            except Conflict:
                continue

    def setdefault(self, key, default=None):
        """The value, stored first where there was none; of several that do this at once one stores."""
        try:
            self.set(key, default, create=True)
        except Conflict:
            pass
        return self[key]

    def clear(self):
        """Empties this namespace and no other."""
        with self._lock:
            self._live.clear()
            self._watched.clear()
            self._request("DELETE", "/v1/memory", query={"clear": "true"}, operation="clear")

    # --- what a mapping does not have

    def set(self, key, value, ttl_ms=None, if_version=None, create=False):
        """Stores a value and returns its version. `ttl_ms` is its lifetime in milliseconds; with `if_version` only
        over that version, with `create` only where nothing is yet; Conflict otherwise."""
        with self._lock:
            live = self._live.get(key)
            if live is not None and live.tree.value is value and ttl_ms is None and if_version is None and not create:
                # `memory[key] += …` assigns what it has already changed in place.
                live.sync("set")
                return live.version
            body = dump(value, self._strict)
            headers = {"if-none-match": "*"} if create else _if_match(if_version)
            answer = self._send("PUT", key, body, headers, {"ttl_ms": ttl_ms}, operation="set")
            self._forget(key)
            self._watch(key, value)
            return _version(answer)

    def read(self, key):
        """The value as plain data, and its version for `set(…, if_version=…)`."""
        with self._lock:
            self._check(key)
            answer = self._get(key)
            return load(answer.body), _version(answer)

    def change(self, key, function, default=_NOTHING):
        """Replaces the value by `function(value)` such that no change of another sandbox gets lost: the function is
        called anew when somebody was faster. `default` stands for a missing value. Returns the new value."""
        while True:
            try:
                value, version = self.read(key)
            except KeyError:
                if default is _NOTHING:
                    raise
                value, version = plain(default), None
            changed = function(value)
            try:
                self.set(key, changed, if_version=version, create=version is None)
                return changed
            except Conflict:
                continue

    def keys_with(self, prefix):
        """The keys that begin with the prefix, taken literally, in the order of their UTF-8 bytes."""
        cursor = None
        while True:
            query = {"prefix": prefix, "cursor": cursor, "limit": 200}
            page = load(self._request("GET", "/v1/memory", query=query, operation="list").body)
            for item in page["items"]:
                yield item["key"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def search(self, text):
        """Yields key and plain value of the entries that hold the text, taken literally."""
        cursor = None
        while True:
            body = {"text": text}
            if self._namespace is not None:
                body["namespace"] = self._namespace
            if cursor is not None:
                body["cursor"] = cursor
            page = load(self._request("POST", "/v1/memory", dump(body), shared=False, operation="search").body)
            for item in page["items"]:
                yield item["key"], item["value"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def check(self):
        """Stores what was changed in live lists and dicts past their methods, as heapq does, and warns of lists and
        dicts that were changed after a copy of them was stored. Called for a key when it is read, and at exit."""
        with self._lock:
            for key in list(set(self._live) | set(self._watched)):
                self._check(key)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.check()

    # --- below

    def _check(self, key):
        live = self._live.get(key)
        if live is not None:
            live.sync("found")
        watched = self._watched.get(key, [])
        for entry in watched[:]:
            original, text = entry
            if _text_of(original) != text:
                watched.remove(entry)
                warnings.warn(
                    "memory[%r] holds a copy of a %s that was changed after it was stored; "
                    "change memory[%r] itself" % (key, type(original).__name__, key),
                    UnrecordedChange,
                    stacklevel=_depth(),
                )

    def _watch(self, key, value):
        if type(value) in (list, dict):
            watched = self._watched.setdefault(key, [])
            watched.append((value, _text_of(value)))
            del watched[:-_WATCHED]

    def _forget(self, key):
        self._live.pop(key, None)
        self._watched.pop(key, None)

    def _get(self, key, known=None):
        headers = {} if known is None else {"if-none-match": '"%d"' % known}
        try:
            return self._send("GET", key, headers=headers, operation="get")
        except DsecError as error:
            self._live.pop(key, None)
            raise _missing(error, key) from None

    def _send(self, method, key, body=None, headers=None, query=None, operation=None):
        if type(key) is not str:
            raise TypeError("a memory key is a str, not %s: %r" % (type(key).__name__, key))
        if key in ("", ".", ".."):
            raise ValueError("a memory key cannot be %r, which no URL path can carry" % key)
        return self._request(method, "/v1/memory/" + tools.segment(key), body, headers, query, operation)

    def _request(self, method, path, body=None, headers=None, query=None, operation=None, shared=True):
        headers = dict(headers or {})
        headers["dsec-origin"] = quote(_origin(operation), safe=" /:.")
        if body is not None:
            headers["content-type"] = "application/json"
            body = body.encode("utf-8")
        query = dict(query or {})
        if shared:
            query["namespace"] = self._namespace
        return self._client.request(method, path, body, headers, query)


class _Live:
    """A list or dict that was read, with the version that it had."""

    def __init__(self, memory, key, value, version):
        self._memory = memory
        self._key = key
        self.version = version
        self._text = dump(value, strict=False)
        self.tree = Tree(value, self._store, lambda given: memory._watch(key, given), memory._strict)

    def sync(self, operation):
        try:
            if dump(self.tree.value, strict=False) != self._text:
                self.tree.settle()
                self._store(operation)
        except DsecError as error:
            if error.code in _NEVER_STORED:
                # It was changed past its methods, so there is nothing to undo; reading again gives what is there.
                self._memory._live.pop(self._key, None)
            raise

    def _store(self, operation):
        memory = self._memory
        with memory._lock:
            text = dump(self.tree.value, memory._strict)
            if text == self._text:
                return
            # A change in place says nothing of the lifetime, so it stays.
            answer = memory._send(
                "PUT", self._key, text, _if_match(self.version), {"ttl_ms": "keep"}, operation=operation
            )
            self.version = _version(answer)
            self._text = text


def _if_match(version):
    return {} if version is None else {"if-match": '"%d"' % version}


def _version(answer):
    return int(answer.headers["etag"].strip('"'))


def _missing(error, key):
    return KeyError(key) if error.code == "MEMORY_NOT_FOUND" else error


def _text_of(value):
    try:
        return dump(value, strict=False)
    except DsecError:
        return None


_HERE = os.path.dirname(os.path.abspath(__file__))


def _caller():
    """The innermost frame outside this package and the collections it builds on, and how far up it is."""
    depth, frame = 1, sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not (path.startswith(_HERE + os.sep) or "_collections_abc" in path):
            return frame, depth
        depth, frame = depth + 1, frame.f_back
    return None, depth


def _depth():
    """The `stacklevel` with which the function that asks warns at its caller outside this package."""
    return _caller()[1] - 1


def _origin(operation):
    frame, _ = _caller()
    if frame is None:
        return operation or ""
    return "%s:%d %s" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno, operation)


_memories = weakref.WeakSet()


def _check_all():
    for memory in list(_memories):
        try:
            memory.check()
        except DsecError as error:
            print("dsec.memory: a change was not stored: %s" % error, file=sys.stderr)


atexit.register(_check_all)


def _start_in_child():
    for memory in list(_memories):
        # A thread of the parent may have held it in a call.
        memory._lock = threading.RLock()


os.register_at_fork(after_in_child=_start_in_child)

"""Lists and dicts that belong to a stored value: each change to one is written back before it returns."""

from dsec.errors import ValueRefused
from dsec.values import MAX_DEPTH, check


class RecordingList(list):
    """A list whose every change is stored, or undone and raised."""

    _dsec_recording = True
    _owner = None

    def __copy__(self):
        return list(self)

    def __deepcopy__(self, memo):
        return plain(self)

    def __reduce_ex__(self, protocol):
        return (list, (plain(self),))

    def _members(self):
        return list(self)

    def _restore(self, members):
        list.__setitem__(self, slice(None), members)

    def _places(self):
        return enumerate(list(self))

    def _replace(self, place, value):
        list.__setitem__(self, place, value)


class RecordingDict(dict):
    """A dict whose every change is stored, or undone and raised."""

    _dsec_recording = True
    _owner = None

    def __copy__(self):
        return dict(self)

    def __deepcopy__(self, memo):
        return plain(self)

    def __reduce_ex__(self, protocol):
        return (dict, (plain(self),))

    def setdefault(self, name, default=None):
        # dict's own would return the value that was passed in, of which only a copy is stored.
        if name not in self:
            self[name] = default
        return self[name]

    def _members(self):
        return dict(self)

    def _restore(self, members):
        dict.clear(self)
        dict.update(self, members)

    def _places(self):
        return list(dict.items(self))

    def _replace(self, place, value):
        dict.__setitem__(self, place, value)


class Tree:
    """The lists and dicts of one stored value. `store(operation)` is called after each change; when it raises, the
    change is undone. `given(value)` is told of each list or dict that came from outside and was copied."""

    def __init__(self, value, store, given, strict):
        self._store = store
        self._given = given
        self._strict = strict
        self._parts = {}
        self.value = self._copy(value)
        self.settle()

    def changing(self, container, operation, change):
        before = container._members()
        try:
            result = change()
            self.settle()
            self._store(operation)
        except BaseException:
            container._restore(before)
            self.settle()
            raise
        return result

    def settle(self):
        """Makes the tree one of recording parts, each in one place, and lets go of what is no longer in it."""
        parts = {}
        self._settle(self.value, parts, 0)
        for key, part in self._parts.items():
            if key not in parts:
                part._owner = None
        self._parts = parts

    def _settle(self, container, parts, depth):
        if depth > MAX_DEPTH:
            raise ValueRefused("the value nests deeper than %d levels, or contains itself" % MAX_DEPTH)
        container._owner = self
        parts[id(container)] = container
        for place, child in container._places():
            if not isinstance(child, (list, dict, tuple)):
                continue
            if id(child) in parts or getattr(child, "_owner", None) is not self:
                # From outside, or a second place for the same part: JSON would store it twice, so it is two.
                check(child, self._strict)
                self._given(child)
                child = self._copy(child)
                container._replace(place, child)
            self._settle(child, parts, depth + 1)

    def _copy(self, value):
        if isinstance(value, dict):
            made = RecordingDict()
            dict.update(made, ((name, self._copy(member)) for name, member in dict.items(value)))
            return made
        if isinstance(value, (list, tuple)):
            made = RecordingList()
            list.extend(made, (self._copy(item) for item in value))
            return made
        return value


def plain(value):
    """A copy of a JSON value in which nothing records."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in dict.items(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _recorded(base, name):
    """The base's method as a change that is stored, or does not happen."""
    inner = getattr(base, name)

    def method(self, *arguments, **named):
        owner = self._owner
        if owner is None:
            return inner(self, *arguments, **named)
        return owner.changing(self, name.strip("_"), lambda: inner(self, *arguments, **named))

    method.__name__ = name
    method.__qualname__ = "Recording%s.%s" % (base.__name__.capitalize(), name)
    method.__doc__ = inner.__doc__
    return method


# Every method by which list and dict change themselves; a test compares these with what Python has.
LIST_CHANGES = (
    "__init__ __setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove reverse sort"
).split()
DICT_CHANGES = "__init__ __setitem__ __delitem__ __ior__ clear pop popitem update".split()

for _name in LIST_CHANGES:
    setattr(RecordingList, _name, _recorded(list, _name))
for _name in DICT_CHANGES:
    setattr(RecordingDict, _name, _recorded(dict, _name))

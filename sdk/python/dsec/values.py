"""Python values and their exact JSON text."""

import json
import math

from dsec.errors import ValueRefused

# As the memory service bounds them (core/limits.ts, jsonDepth), and RFC 7493 section 2.2.
MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1


def dump(value, strict=True):
    """The compact JSON text of a value; raises ValueRefused, naming the place, where JSON would change it.

    Without `strict`, tuples become lists and subclasses the types they derive from. NaN, infinities, bytes, sets and
    names that are not text are refused in any case: reading them back would give something else.
    """
    check(value, strict)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def load(text):
    """Reads a JSON text: integers stay integers, floats floats."""
    return json.loads(text, parse_constant=_refuse_constant)


def check(value, strict=True):
    _check(value, strict, (None, "value"), 0, set())


def _check(value, strict, place, depth, above):
    if value is None or value is True or value is False:
        return
    kind = type(value)
    if isinstance(value, str):
        _exact(kind is str, strict, place, value, "str(…)")
        _text(value, place)
    elif isinstance(value, int):
        _exact(kind is int, strict, place, value, "int(…)")
        if strict and not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise ValueRefused("%s: the integer %s… is beyond 2**53 - 1; store str(…)" % (_shown(place), _start(value)))
    elif isinstance(value, float):
        _exact(kind is float, strict, place, value, "float(…)")
        if not math.isfinite(value):
            raise ValueRefused("%s: JSON has no %r; store None or a string" % (_shown(place), value))
    elif isinstance(value, (list, dict, tuple)):
        _container(value, strict, place, depth, above)
    else:
        raise ValueRefused(
            "%s: JSON has no %s; store a str, int, float, bool, None, list or dict" % (_shown(place), kind.__name__)
        )


def _container(value, strict, place, depth, above):
    kind = type(value)
    plain = kind in (list, dict) or getattr(kind, "_dsec_recording", False)
    if isinstance(value, tuple):
        _exact(False, strict, place, value, "list(…)")
    else:
        _exact(plain, strict, place, value, "dict(…)" if isinstance(value, dict) else "list(…)")
    if depth >= MAX_DEPTH:
        raise ValueRefused("%s: nests deeper than %d levels" % (_shown(place), MAX_DEPTH))
    if id(value) in above:
        raise ValueRefused("%s: contains itself" % _shown(place))
    above.add(id(value))
    if isinstance(value, dict):
        # Through the base class: a subclass may show other members than it holds.
        for name, member in dict.items(value):
            if type(name) is not str:
                raise ValueRefused(
                    "%s: the key %r is a %s and would become text; use str(…)" % (_shown(place), name, type(name).__name__)
                )
            _text(name, place)
            _check(member, strict, (place, name), depth + 1, above)
    else:
        for at, item in enumerate(value):
            _check(item, strict, (place, at), depth + 1, above)
    above.discard(id(value))


def _exact(holds, strict, place, value, instead):
    if strict and not holds:
        kind = type(value)
        raise ValueRefused(
            "%s: a %s would come back as %s; store %s" % (_shown(place), kind.__name__, _base(value), instead)
        )


def _base(value):
    if isinstance(value, tuple):
        return "list"
    return next(base.__name__ for base in type(value).__mro__ if base in (str, int, float, list, dict))


def _text(text, place):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueRefused("%s: holds a lone surrogate, which UTF-8 cannot carry" % _shown(place)) from error


def _shown(place):
    """The way from the top, as Python would write it. A place is a chain of (above, step), made text only in errors."""
    steps = []
    while place is not None:
        place, step = place
        steps.append(step)
    top = steps.pop()
    text = top + "".join("[%r]" % (step,) for step in reversed(steps))
    return text if len(text) <= 200 else text[:200] + "…"


def _start(number):
    # Beyond 4300 digits Python refuses to write a number out.
    return str(number)[:20] if abs(number) < 10**40 else "of %d bits" % number.bit_length()


def _refuse_constant(name):
    raise ValueRefused("the text holds %s, which JSON does not have" % name)

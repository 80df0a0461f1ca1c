"""Tells the record of this sandbox about an error that the program met, with where it was."""

import json
import traceback

from dsec import tools

# What the channel takes of each (core/limits.ts); the end of a stack is where it went wrong.
TEXT_CHARS = 4096
STACK_CHARS = 16 * 1024


def error(problem, client=None):
    """Records an exception and returns the number of its event.

    except Exception as problem:
        dsec.report.error(problem)
        raise
    """
    stack = "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))
    told = {
        "code": type(problem).__name__[:100],
        "text": _sendable(str(problem))[:TEXT_CHARS],
        "stack": _sendable(stack)[-STACK_CHARS:],
    }
    body = json.dumps(told).encode()
    answer = (client or tools.default_client()).request(
        "POST", "/v1/errors", body, {"content-type": "application/json"}
    )
    return answer.json()["seq"]


def _sendable(text):
    """Without what no JSON text of this channel may hold: lone surrogates and U+0000."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\\0")

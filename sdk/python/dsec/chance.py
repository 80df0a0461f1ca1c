"""What a program needs in place of the clock and of chance to do the same when its trace is replayed."""

import os

from dsec.tools import Client


def seed():
    """A number from 0 to 2^32 - 1 that is the same in every attempt and replay of this task.

    As in `random.seed(dsec.seed())`.
    """
    return int(os.environ["DSEC_SEED"])


def clock(client=None):
    """Seconds since 1970 when the last call was answered, or when the sandbox began where none was.

    A replay tells what was told when it was recorded. Between two calls it stands still: for durations use `time`.
    """
    return (client or Client()).request("GET", "/v1/clock").json()["wall_us"] / 1e6

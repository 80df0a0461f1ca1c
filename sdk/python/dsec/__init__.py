"""What a program inside a DSec sandbox uses to reach its memory, its messages and its tools.

Only the standard library is needed. `dsec.memory` keeps values that outlive the sandbox, `dsec.messages` talks to
the other sandboxes of the job, and `dsec.tools` speaks HTTP over the sandbox's one socket.
`dsec.clock()` and `dsec.seed()` tell a replay what they told at first.
"""

from dsec.chance import clock, seed
from dsec.errors import DsecError

__all__ = ["DsecError", "clock", "seed"]

"""An agent that fails in the middle of its work: what it wrote before is kept and attested."""

import json
import sys

with open("output.json", "w", encoding="utf-8") as file:
    json.dump({"steps_done": 2, "steps": 3}, file)
print("step 1 done\nstep 2 done", flush=True)
print("step 3: the tool answered nonsense", file=sys.stderr, flush=True)
sys.exit(3)

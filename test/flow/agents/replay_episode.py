"""Makes every tool call of one recorded episode again, through the sandbox's socket (runs inside a sandbox).

Reads the episode from the path in argv[1], calls each tool with the recorded arguments, checks that the answer is the
recorded one, remembers it, and writes output.json: how many calls were made and how many of them were errors.
"""

import json
import sys

from dsec.memory import Memory
from dsec.tools import Client


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        episode = json.load(file)
    client = Client()
    memory = Memory(client=client)
    memory["tools"] = []
    errors = 0
    calls = [step for step in episode["steps"] if step["kind"] == "tool"]
    for step in calls:
        body = json.dumps({"input": step["args"]}).encode()
        headers = {"content-type": "application/json"}
        answer = client.request("POST", "/v1/tools/" + step["tool"], body, headers).json()
        recorded = step["response"]
        failed = recorded.startswith("Error")
        assert answer["is_error"] == failed, (step["tool"], answer)
        # an answer without a body has no output, which is null
        assert answer["output"] == (recorded or None), (step["tool"], answer)
        errors += failed
        memory["tools"].append(step["tool"])
    assert [step["tool"] for step in calls] == list(memory["tools"])
    with open("output.json", "w", encoding="utf-8") as file:
        json.dump({"episode": episode["id"], "calls": len(calls), "errors": errors}, file)


main()

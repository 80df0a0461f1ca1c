"""Scores one recorded customer-service episode (standard library only; runs inside a sandbox).

Waits argv[2] seconds, as an agent waits for its model, reads the episode from the path in argv[1], and writes output.json
in the working directory:
tool_call_accuracy = 2*TP / (|P| + |G|), where P are the state-changing calls that did not err, G the expected
actions that change state, and TP their multiset intersection by (name, canonical arguments); 1 when both are empty.
"""

import collections
import json
import sys
import time

STATE_CHANGING = {
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
}


def canonical(value):
    """JSON text that is equal for equal values: members sorted, whole floats written as integers."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}:{canonical(value[name])}" for name in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    return json.dumps(value)


def calls(actions):
    return collections.Counter(
        (action["tool"], canonical(action["args"])) for action in actions if action["tool"] in STATE_CHANGING
    )


def main():
    time.sleep(float(sys.argv[2]))
    with open(sys.argv[1], encoding="utf-8") as file:
        episode = json.load(file)
    made = calls(
        step for step in episode["steps"] if step["kind"] == "tool" and not step["response"].startswith("Error")
    )
    expected = calls(episode["expected_actions"])
    matched = sum((made & expected).values())
    total = sum(made.values()) + sum(expected.values())
    score = {
        "episode": episode["id"],
        "tool_call_accuracy": 1.0 if total == 0 else 2 * matched / total,
        "matched": matched,
        "made": sum(made.values()),
        "expected": sum(expected.values()),
    }
    with open("output.json", "w", encoding="utf-8") as file:
        json.dump(score, file)
    print(f"{episode['id']}: {matched} of {sum(expected.values())} expected calls", flush=True)


main()

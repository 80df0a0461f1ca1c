"""Scores the recorded episodes by itself: tool_call_accuracy of each, and its rank correlation with the reward.

Usage: airline_reference.py EPISODES.jsonl [TOOLS THAT CHANGE STATE]. Prints {"accuracy": {id: value}, "spearman": rho, "success": {id: value}}.
Standard library only, and written apart from what it checks.
"""

import collections
import json
import sys

STATE_CHANGING = {
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
}


def canonical(value):
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, dict):
        return tuple(sorted((name, canonical(part)) for name, part in value.items()))
    if isinstance(value, list):
        return ("list",) + tuple(canonical(part) for part in value)
    return (type(value) is bool, value)


def bag(actions):
    tools = set(sys.argv[2:]) or STATE_CHANGING
    kept = [action for action in actions if action["tool"] in tools]
    return collections.Counter((action["tool"], canonical(action["args"])) for action in kept)


def ranks(values):
    result = []
    for value in values:
        below = sum(1 for other in values if other < value)
        same = sum(1 for other in values if other == value)
        result.append(below + (same + 1) / 2)
    return result


def pearson(x, y):
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    shared = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    alone = sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)
    return shared / alone**0.5


def main():
    accuracy, success, rewards = {}, {}, []
    with open(sys.argv[1], encoding="utf-8") as file:
        episodes = [json.loads(line) for line in file]
    for episode in episodes:
        made_calls = [step for step in episode["steps"] if step["kind"] == "tool"]
        good = [step for step in made_calls if not step["response"].startswith("Error")]
        made, expected = bag(good), bag(episode["expected_actions"])
        total = sum(made.values()) + sum(expected.values())
        accuracy[episode["id"]] = 2 * sum((made & expected).values()) / total if total else 1.0
        success[episode["id"]] = len(good) / len(made_calls) if made_calls else None
        rewards.append(episode["reward"])
    print(
        json.dumps(
            {
                "accuracy": accuracy,
                "success": success,
                "spearman": pearson(ranks(list(accuracy.values())), ranks(rewards)),
            }
        )
    )


main()

"""Grades a model's answers: reads a list of {question, expected, answer} and writes output.json."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    answers = json.load(file)

wrong = []
for entry in answers:
    right = entry["answer"].strip().casefold() == entry["expected"].casefold()
    print("right" if right else "WRONG", entry["question"], flush=True)
    if not right:
        wrong.append(entry["question"])

with open("output.json", "w", encoding="utf-8") as file:
    json.dump({"accuracy": 1 - len(wrong) / len(answers), "answers": len(answers), "wrong": wrong}, file, indent=2)

"""Prints every byte value: output is bytes and need not be text."""

import json
import sys

data = bytes(range(256)) * 64
sys.stdout.buffer.write(data)
with open("output.json", "w", encoding="utf-8") as file:
    json.dump({"bytes": len(data)}, file)

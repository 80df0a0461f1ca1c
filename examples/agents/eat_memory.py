"""Takes more memory than its task may have."""

import json

with open("output.json", "w", encoding="utf-8") as file:
    json.dump({"chunk_bytes": 4 << 20}, file)
chunks = []
while True:
    chunks.append(b"\xff" * (4 << 20))
    print(f"{len(chunks) * 4} MiB", flush=True)

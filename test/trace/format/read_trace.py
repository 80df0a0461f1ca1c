"""Reads trace files by docs/trace-format.md, proto/trace.proto and proto/trace-1.dictionary alone: the standard library, and the
zstd command.

    python3 read_trace.py PROTO DICTIONARY FILE     an event a line, as JSON; fails where a digest or the chain is not as it
                                                    should be
"""
import hashlib
import itertools
import json
import re
import struct
import subprocess
import sys

HEADER, BLOCK, FOOTER, ZSTD = 0x184D2A50, 0x184D2A51, 0x184D2A52, 0xFD2FB528
SECTIONS = {1: "plan_execution", 2: "memory_state", 3: "token_logit", 4: "reward_signal", 5: "error_context"}


def parse_proto(text):
    """Messages by name: field number to (name, type, repeated, optional)."""
    text = re.sub(r"//[^\n]*", "", text)
    messages = {}
    for name, body in re.findall(r"message (\w+) \{((?:[^{}]|\{[^{}]*\})*)\}", text):
        fields = {}
        for label, kind, field, number in re.findall(r"(repeated |optional |)(\w+) (\w+) = (\d+);", body):
            fields[int(number)] = (field, kind, label == "repeated ", label == "optional ")
        messages[name] = fields
    return messages


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def to_varint(value):
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(data) + bytes([value])


def scalar(kind, wire, data, at):
    if wire == 1:
        return struct.unpack_from("<d", data, at)[0], at + 8
    value, at = varint(data, at)
    if kind == "sint64":
        value = (value >> 1) ^ -(value & 1)
    elif kind == "int64" and value >= 1 << 63:
        value -= 1 << 64
    elif kind == "bool":
        value = value != 0
    return value, at


def blank(messages, name):
    zeros = {"string": "", "bytes": b"", "double": 0.0, "bool": False}
    return {
        field: [] if repeated else None if optional or kind in messages else zeros.get(kind, 0)
        for field, kind, repeated, optional in messages[name].values()
    }


def decode(messages, name, data):
    message = blank(messages, name)
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        field, kind, repeated, _ = messages[name][tag >> 3]
        wire = tag & 7
        if wire == 2:
            length, at = varint(data, at)
            piece = data[at : at + length]
            assert len(piece) == length, "a field leads past its message"
            at += length
            if kind in messages:
                value = decode(messages, kind, piece)
            elif kind == "string":
                value = piece.decode("utf-8")
            elif kind == "bytes":
                value = piece
            else:
                inner = 0
                while inner < length:
                    item, inner = scalar(kind, 1 if kind == "double" else 0, piece, inner)
                    message[field].append(item)
                continue
        else:
            value, at = scalar(kind, wire, data, at)
        if repeated:
            message[field].append(value)
        else:
            message[field] = value
    return message


def shown(value, field=""):
    """As our own reader shows it: digests as text, other bytes in hexadecimal."""
    if isinstance(value, bytes):
        return "sha256:" + value.hex() if field.endswith("_digest") else value.hex()
    if isinstance(value, list):
        return [shown(item, field) for item in value]
    if isinstance(value, dict):
        return {name: shown(item, name) for name, item in value.items()}
    if isinstance(value, float):
        return {"double": struct.pack(">d", value).hex()}
    return value


def sha256(data):
    return hashlib.sha256(data).digest()


def unpack(frame):
    words = ["zstd", "-dcq", "-D", sys.argv[2]]
    return subprocess.run(words, input=frame, stdout=subprocess.PIPE, check=True).stdout


def empty_frame_bytes(data, at):
    """RFC 8878 section 3.1.1, of a frame whose one block is raw and empty."""
    descriptor = data[at + 4]
    single = descriptor >> 5 & 1
    block = at + 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
    assert data[block : block + 3] == b"\1\0\0", "no block header announces the frame at %d" % at
    return block + 3 + (4 if descriptor & 4 else 0) - at


def genesis(header):
    if header["lease_id"] is not None:
        named = {"fence": header["fence"], "lease_id": header["lease_id"], "profile": "urn:dsec:trace:1"}
    else:
        named = {"profile": "urn:dsec:trace:1", "trace_id": header["trace_id"]}
    return sha256(json.dumps(named, separators=(",", ":"), ensure_ascii=False).encode())


def frame_events(messages, content, header):
    """The events of a frame's blocks, each with its place."""
    blocks = decode(messages, "Trace", content)["blocks"]
    lists = ("sections", "first_seqs", "last_seqs", "event_counts", "first_t_us", "last_t_us")
    facts = list(zip(*(header[name] for name in lists)))
    assert len(blocks) == len(facts) == len(header["last_t_us"]) > 0, "the frame has other blocks than its header says"
    return [event for block, of in zip(blocks, facts) for event in block_events(block, *of)]


def block_events(block, section, first_seq, last_seq, events, first_t_us, last_t_us):
    assert block["section"] == section, "the block is of another section than its header says"
    seqs, times = running_sums(block["seq_steps"]), running_sums(block["t_us_steps"])
    skews = block["wall_skews_us"] or [0] * len(seqs)
    assert len(seqs) == len(times) == len(skews) == len(block["events"]) == events, "lists of unequal length"
    named = (first_seq, last_seq, first_t_us, last_t_us)
    assert (seqs[0], seqs[-1], min(times), max(times)) == named, "the block's events are not those that its header names"
    return [place(*at) + data for *at, data in zip(seqs, times, skews, block["events"])]


def running_sums(steps):
    return list(itertools.accumulate(steps))


def place(seq, t_us, wall_skew_us):
    """Fields 1 to 3 of Event, which with the bytes that a block keeps are the event's own encoding."""
    zigzag = 2 * wall_skew_us if wall_skew_us >= 0 else -2 * wall_skew_us - 1
    return b"".join(bytes([tag]) + to_varint(value) for tag, value in ((8, seq), (16, t_us), (24, zigzag)) if value)


def segment_events(messages, file_header, blocks, sealed_by):
    """The events of a segment in order, each with its bytes, after everything about them was checked."""
    events = {}
    marks = {}
    flushed = at = 0
    # all frames in one go, as they are one stream
    stream = unpack(b"".join(frame for _, frame in blocks)) if blocks else b""
    assert len(stream) == sum(header["uncompressed_bytes"] for header, _ in blocks), "the blocks unpack to another size"
    for header, frame in blocks:
        assert sha256(frame) == header["frame_digest"], "a frame is not as it was written"
        content = stream[at : at + header["uncompressed_bytes"]]
        at += len(content)
        for data in frame_events(messages, content, header):
            event = decode(messages, "Event", data)
            assert event["seq"] not in events, "a number comes twice"
            events[event["seq"]] = (event, data)
        if header["chain_seq"] is not None:
            marks[header["chain_seq"]] = header["chain_digest"]
            flushed = header["chain_seq"]
    head = genesis(file_header)
    for seq in range(1, flushed + 1):
        head = sha256(head + events[seq][1])
        assert marks.get(seq, head) == head, "the chain breaks at event %d" % seq
    if sealed_by is not None:
        assert sum(sealed_by["event_counts"]) == flushed == len(events), "the footer counts other events"
        index = {seq: event for seq, (event, _) in events.items()}
        for what, kind, steps in (("call", "tool_call_start", "call_seq_steps"), ("step", "plan_step", "step_seq_steps")):
            for number, (seq, step) in enumerate(zip(running_sums(sealed_by[steps]), sealed_by[steps]), 1):
                assert step == 0 or index[seq][kind][what] == number, "the index of %ss is wrong" % what
    return [events[seq][0] for seq in range(1, flushed + 1)], head


def read(messages, data):
    """Segments as (file header, events, head)."""
    at = 0
    segments = []
    current = None
    while at < len(data):
        magic, length = struct.unpack_from("<II", data, at)
        if magic == ZSTD:
            at += empty_frame_bytes(data, at)
            continue
        payload = data[at + 8 : at + 8 + length]
        if magic == HEADER:
            assert payload[:8] == b"DSECTRC1", "no trace of version 1"
            current = (decode(messages, "FileHeader", unpack(payload[8:])), [], at)
            segments.append([current, None])
            first = last = sha256(payload)
        elif magic == BLOCK:
            header = decode(messages, "BlockHeader", payload)
            last = sha256(payload)
            at += 8 + length
            length = header["compressed_bytes"] - 8
            frame = data[at : at + 8 + length]
            assert struct.unpack_from("<I", frame)[0] == ZSTD, "no zstd frame follows a block header"
            current[1].append((header, frame))
        elif magic == FOOTER:
            size = struct.unpack("<I", payload[-12:-8])[0]
            footer = payload[:size]
            assert payload[-8:] == b"DSECEND1" and size == len(payload) - 44
            assert sha256(first + last + footer) == payload[size : size + 32], "the footer is of another segment"
            footer = decode(messages, "Footer", footer)
            assert footer["segment_bytes"] == at - current[2]
            assert footer["first_seqs"] == [seq for header, _ in current[1] for seq in header["first_seqs"]]
            segments[-1][1] = footer
        else:
            assert magic >> 4 == 0x184D2A5, "no frame at %d" % at
        at += 8 + length
    return [(header, *segment_events(messages, header, blocks, footer)) for (header, blocks, _), footer in segments]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        messages = parse_proto(file.read())
    with open(sys.argv[3], "rb") as file:
        segments = read(messages, file.read())
    for header, events, head in segments:
        header = {**header, "genesis_digest": genesis(header)}
        print(json.dumps({"header": shown(header), "events": len(events), "chain_head": shown(head, "_digest")}))
        for event in events:
            base = header["started_wall_us"] + event["t_us"] + event["wall_skew_us"]
            place = {"seq": event["seq"], "t_us": event["t_us"], "wall_us": base}
            for kind, members in event.items():
                if isinstance(members, dict):
                    print(json.dumps({**place, "type": kind, **shown(members)}))


main()

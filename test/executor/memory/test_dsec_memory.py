"""Run by python.test.ts, with DSEC_SOCKET at a real server of the memory routes."""

import bisect
import collections
import copy
import enum
import heapq
import json
import math
import os
import pickle
import random
import signal
import socket
import sys
import tempfile
import threading
import unittest
import warnings

from dsec import DsecError, tools
from dsec.errors import Conflict, Unreachable, UnrecordedChange, ValueRefused
from dsec.memory import Memory
from dsec.messages import Channel
from dsec.recording import DICT_CHANGES, LIST_CHANGES, RecordingDict, RecordingList


class MemoryTest(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("error")
        self.client = tools.Client()
        self.memory = Memory(client=self.client)
        self.memory.clear()
        self.addCleanup(self.client.close)

    def stored(self, key):
        """What the executor has, seen by another client."""
        client = tools.Client()
        try:
            return json.loads(client.request("GET", "/v1/memory/" + tools.segment(key)).body)
        finally:
            client.close()


class SlowServer:
    """Takes one request, says so by `asked`, and answers it with no messages once `answer` is set."""

    def __init__(self, test):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "slow.sock")
        self.asked = threading.Event()
        self.answer = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._serving = threading.Thread(target=self._serve)

    def __enter__(self):
        self._serving.start()
        return self

    def __exit__(self, *_):
        self.answer.set()
        self._serving.join()
        self._listener.close()

    def _serve(self):
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65_536)
            self.asked.set()
            self.answer.wait()
            body = b'{"items":[]}'
            connection.sendall(b"HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


class Values(MemoryTest):
    def test_values_come_back_with_their_types(self):
        for value in (
            None, True, False, 0, 1, -1, 2**53 - 1, -(2**53) + 1, 0.0, -0.0, 1.0, 0.1, 1e22, 1e-300, 5e-324,
            1.7976931348623157e308, "", "1", "true", "€ 😀 \x00 \n \u2028 \"\\", [], {}, [1, 1.0, "1", True, None],
            {"1": 1, "": [], "a b/%": {"c": [[]]}, "__proto__": 1, "constructor": 2},
        ):
            self.memory["value"] = value
            back = self.memory.read("value")[0]
            self.assertEqual(repr(back), repr(value))
            self.assertEqual(repr(self.memory["value"]), repr(value))

    def test_random_values_come_back_exactly(self):
        seed = int(os.environ["DSEC_TEST_SEED"])
        source = random.Random(seed)

        def value(depth):
            kind = source.randrange(7 if depth < 4 else 5)
            if kind == 0:
                return source.choice([None, True, False])
            if kind == 1:
                return source.randint(-(2**53) + 1, 2**53 - 1)
            if kind == 2:
                return source.choice([source.random(), source.uniform(-8e307, 8e307), float(source.randrange(100))])
            if kind in (3, 4):
                return "".join(chr(source.choice([0, 34, 92, 65, 233, 0x20AC, 0x1F600])) for _ in range(source.randrange(9)))
            if kind == 5:
                return [value(depth + 1) for _ in range(source.randrange(5))]
            return {str(source.randrange(50)): value(depth + 1) for _ in range(source.randrange(5))}

        for _ in range(200):
            given = value(0)
            self.memory["random"] = given
            self.assertEqual(repr(self.memory.read("random")[0]), repr(given), "seed %d" % seed)

    def test_what_json_would_change_is_refused_by_name_of_the_place(self):
        class Color(enum.IntEnum):
            RED = 1

        class Text(str):
            pass

        circle = []
        circle.append(circle)
        deep = []
        for _ in range(65):
            deep = [deep]
        refused = [
            (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "inf"), (b"x", "bytes"), ({1, 2}, "set"),
            ((1, 2), "list"), ({1: "a"}, "would become text"), ({None: 1}, "would become text"),
            ({True: 1}, "would become text"), (2**53, "2\\*\\*53"), (-(2**53), "2\\*\\*53"), (10**5000, "bits"),
            (Color.RED, "Color"), (Text("a"), "Text"), (collections.OrderedDict(), "dict"),
            (collections.Counter("a"), "dict"), (1j, "complex"), (object(), "object"), ("\ud800", "surrogate"),
            ({"\udfff": 1}, "surrogate"), (circle, "contains itself"), (deep, "nests deeper"),
        ]
        self.memory["value"] = "before"
        for value, reason in refused:
            with self.assertRaisesRegex(ValueRefused, reason):
                self.memory["value"] = value
            with self.assertRaisesRegex(TypeError, reason):
                self.memory["value"] = {"a": [0, value]} if value is not deep else [deep]
        with self.assertRaisesRegex(ValueRefused, r"value\['a'\]\[1\]"):
            self.memory["value"] = {"a": [0, {3}]}
        self.assertEqual(self.memory["value"], "before")

    def test_without_strict_only_what_has_no_json_at_all_is_refused(self):
        memory = Memory(client=self.client, strict=False)
        memory["tuple"] = (1, (2,))
        self.assertEqual(memory["tuple"], [1, [2]])
        memory["tuple"].append((3, [4]))
        memory["tuple"][2][1].append(5)
        self.assertEqual(self.stored("tuple"), [1, [2], [3, [4, 5]]])
        for value in (math.nan, b"x", {1: 2}, {1}):
            with self.assertRaises(ValueRefused):
                memory["tuple"] = value

    def test_keys_are_any_text_and_nothing_else(self):
        keys = ["a/b", "a%2Fb", "a b", "a+b", "é", "e\u0301", "a?b#c", "../x", "...", "*", "x[ab]", "\n", "😀", "'", '"']
        for at, key in enumerate(keys):
            self.memory[key] = at
        for at, key in enumerate(keys):
            self.assertEqual(self.memory[key], at)
        self.assertEqual(sorted(self.memory), sorted(keys))
        self.assertEqual(list(self.memory.keys_with("a%")), ["a%2Fb"])
        self.assertEqual(list(self.memory.keys_with("x[")), ["x[ab]"])
        for key in ("", ".", ".."):
            with self.assertRaises(ValueError):
                self.memory[key] = 1
        for key in (1, None, b"a"):
            with self.assertRaises(TypeError):
                self.memory[key] = 1
        with self.assertRaisesRegex(DsecError, "INVALID_REQUEST"):
            self.memory["k" * 513] = 1
        with self.assertRaisesRegex(DsecError, "BODY_TOO_LARGE"):
            self.memory["large"] = "x" * (256 * 1024)


class ChangesInPlace(MemoryTest):
    def test_every_way_to_change_a_list_is_stored(self):
        ways = {
            "append": lambda x: x.append(9),
            "extend": lambda x: x.extend([9, 8]),
            "extend by an iterator": lambda x: x.extend(iter([9])),
            "insert": lambda x: x.insert(1, 9),
            "pop": lambda x: x.pop(),
            "pop at": lambda x: x.pop(0),
            "remove": lambda x: x.remove(1),
            "clear": lambda x: x.clear(),
            "sort": lambda x: x.sort(),
            "sort by": lambda x: x.sort(key=lambda n: -n, reverse=True),
            "reverse": lambda x: x.reverse(),
            "item": lambda x: x.__setitem__(0, 9),
            "negative item": lambda x: x.__setitem__(-1, 9),
            "slice": lambda x: x.__setitem__(slice(1, 2), [7, 8, 9]),
            "step": lambda x: x.__setitem__(slice(None, None, 2), [7, 8]),
            "del item": lambda x: x.__delitem__(0),
            "del slice": lambda x: x.__delitem__(slice(0, 2)),
            "+=": lambda x: x.__iadd__([9]),
            "*=": lambda x: x.__imul__(2),
            "bisect": lambda x: bisect.insort(x, 2),
            "shuffle": lambda x: random.Random(1).shuffle(x),
            "init": lambda x: x.__init__([4]),
        }
        for name, way in ways.items():
            with self.subTest(name):
                wanted = [3, 1, 2]
                way(wanted)
                self.memory["list"] = {"deep": [[3, 1, 2]]}
                way(self.memory["list"]["deep"][0])
                self.assertEqual(self.stored("list"), {"deep": [wanted]})
                self.assertEqual(self.memory["list"], {"deep": [wanted]})

    def test_every_way_to_change_a_dict_is_stored(self):
        ways = {
            "item": lambda x: x.__setitem__("c", 9),
            "del": lambda x: x.__delitem__("a"),
            "update": lambda x: x.update({"b": 9}, c=8),
            "update by pairs": lambda x: x.update([("c", 9)]),
            "|=": lambda x: x.__ior__({"c": 9}),
            "setdefault": lambda x: x.setdefault("c", 9),
            "setdefault of what is there": lambda x: x.setdefault("a", 9),
            "pop": lambda x: x.pop("a"),
            "pop with default": lambda x: x.pop("z", None),
            "popitem": lambda x: x.popitem(),
            "clear": lambda x: x.clear(),
            "init": lambda x: x.__init__(c=1),
        }
        for name, way in ways.items():
            with self.subTest(name):
                wanted = {"a": 1, "b": 2}
                way(wanted)
                self.memory["dict"] = [{"deep": {"a": 1, "b": 2}}]
                way(self.memory["dict"][0]["deep"])
                self.assertEqual(self.stored("dict"), [{"deep": wanted}])

    def test_no_method_of_list_or_dict_that_changes_it_was_forgotten(self):
        reading = {
            list: "__add__ __class_getitem__ __contains__ __eq__ __ge__ __getattribute__ __getitem__ __gt__ __iter__ __le__"
            " __len__ __lt__ __mul__ __ne__ __new__ __repr__ __reversed__ __rmul__ __sizeof__ copy count index"
            " __doc__ __hash__",
            dict: "__class_getitem__ __contains__ __eq__ __ge__ __getattribute__ __getitem__ __gt__ __iter__ __le__ __len__"
            " __lt__ __ne__ __new__ __or__ __repr__ __reversed__ __ror__ __sizeof__ copy get items keys values fromkeys"
            " __doc__ __hash__",
        }
        for base, names in reading.items():
            changes = {list: LIST_CHANGES, dict: DICT_CHANGES + ["setdefault"]}[base]
            self.assertEqual(set(vars(base)) - set(names.split()), set(changes))
        for name in LIST_CHANGES:
            self.assertIn(name, vars(RecordingList))
        for name in DICT_CHANGES:
            self.assertIn(name, vars(RecordingDict))

    def test_operators_on_the_mapping_itself(self):
        self.memory["n"] = 1
        self.memory["n"] += 1
        self.memory["list"] = [1]
        self.memory["list"] += [2]
        self.memory["list"][1:1] = [9, 9]
        del self.memory["list"][0]
        self.memory["dict"] = {"a": {"b": 1}}
        self.memory["dict"]["a"]["b"] += 1
        self.memory["dict"] |= {"c": [1]}
        self.memory["dict"]["c"][0] -= 5
        self.memory.setdefault("log", []).append("first")
        self.memory.setdefault("log", []).append("second")
        self.memory["dict"].setdefault("later", []).append(1)
        self.memory.update({"x": [1]}, y=2)
        self.memory["x"].append(2)
        self.assertEqual(self.stored("n"), 2)
        self.assertEqual(self.stored("list"), [9, 9, 2])
        self.assertEqual(self.stored("dict"), {"a": {"b": 2}, "c": [-4], "later": [1]})
        self.assertEqual(self.stored("log"), ["first", "second"])
        self.assertEqual(self.stored("x"), [1, 2])
        self.assertEqual(self.memory.pop("x"), [1, 2])
        self.assertNotIn("x", self.memory)
        self.assertEqual(self.memory.pop("x", 7), 7)
        with self.assertRaises(KeyError):
            self.memory.pop("x")
        with self.assertRaises(KeyError):
            del self.memory["x"]
        self.assertEqual(len(self.memory), 5)

    def test_two_names_for_one_list_are_one_list(self):
        self.memory["list"] = [[1]]
        one, two = self.memory["list"], self.memory["list"]
        self.assertIs(one, two)
        one.append(2)
        two[0].append(3)
        self.assertEqual(self.stored("list"), [[1, 3], 2])

    def test_a_part_in_two_places_becomes_two_as_json_has_it(self):
        self.memory["list"] = [[1]]
        value = self.memory["list"]
        value.append(value[0])
        value[0].append(2)
        self.assertEqual(value, [[1, 2], [1]])
        self.assertEqual(self.stored("list"), [[1, 2], [1]])
        with self.assertRaises(ValueRefused):
            value.append(value)
        self.assertEqual(value, [[1, 2], [1]])
        self.assertEqual(self.memory["list"], self.stored("list"))

    def test_what_was_taken_out_belongs_to_the_program(self):
        self.memory["list"] = [[1], [2]]
        taken = self.memory["list"].pop()
        taken.append(3)
        self.assertEqual(taken, [2, 3])
        self.assertEqual(self.stored("list"), [[1]])
        for made in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: x[:], lambda x: x + []):
            copied = made(self.memory["list"])
            self.assertIs(type(copied), list)
            copied.append(9)
        self.assertEqual(self.stored("list"), [[1]])
        self.assertEqual(json.dumps(self.memory["list"]), "[[1]]")

    def test_a_change_that_is_refused_did_not_happen(self):
        self.memory["list"] = [{"a": 1}, 2]
        value = self.memory["list"]
        refused = [
            lambda: value.append({1, 2}), lambda: value[0].update(b=math.nan), lambda: value[0].__setitem__(3, 4),
            lambda: value.extend([1, (2,)]), lambda: value.append(collections.OrderedDict(a=1)),
            lambda: value.append("x" * 300_000), lambda: value[0].update({"c": b""}),
        ]
        for change in refused:
            with self.assertRaises(DsecError):
                change()
            self.assertEqual(value, [{"a": 1}, 2])
        with self.assertRaises(IndexError):
            value.pop(7)
        with self.assertRaises(TypeError):
            value.sort()
        self.assertEqual(self.stored("list"), [{"a": 1}, 2])
        value[0]["b"] = [1]
        value[0]["b"].append(2)
        self.assertEqual(self.stored("list"), [{"a": 1, "b": [1, 2]}, 2])

    def test_a_change_past_the_methods_is_found_when_the_key_is_read_again(self):
        self.memory["heap"] = [3, 1, 2]
        heap = self.memory["heap"]
        heapq.heapify(heap)
        heapq.heappush(heap, 0)
        dict.__setitem__(self.memory.setdefault("dict", {}), "a", [1])
        self.memory["dict"]["a"].append(2)
        self.assertEqual(heapq.heappop(self.memory["heap"]), 0)
        self.memory.check()
        self.assertEqual(self.stored("heap"), [1, 3, 2])
        self.assertEqual(self.stored("dict"), {"a": [1, 2]})

    def test_a_change_to_the_copied_original_is_warned_of(self):
        original, inner = [1], {"a": 1}
        self.memory["list"] = original
        original.append(2)
        with self.assertWarnsRegex(UnrecordedChange, "list.*a copy") as caught:
            self.memory["list"]
        self.assertEqual(caught.filename, __file__)
        self.memory["list"].append(inner)
        inner["a"] = 2
        with self.assertWarns(UnrecordedChange):
            self.memory.check()
        self.assertEqual(self.stored("list"), [1, {"a": 1}])
        self.memory.check()  # told once


class Sharing(MemoryTest):
    def test_a_change_that_another_was_faster_than_writes_nothing(self):
        self.memory["list"] = [1]
        mine = self.memory["list"]
        other = Memory(client=self.client)
        other["list"].append(2)
        with self.assertRaises(Conflict):
            mine.append(3)
        self.assertEqual(mine, [1])
        self.assertEqual(self.stored("list"), [1, 2])
        self.memory["list"].append(3)
        self.assertEqual(self.stored("list"), [1, 2, 3])

    def test_a_change_past_the_methods_that_another_was_faster_than_is_told_once(self):
        other = Memory(client=self.client)
        readings = {
            "[]": lambda: self.memory["heap"],
            "read": lambda: self.memory.read("heap")[0],
            "change": lambda: self.memory.change("heap", lambda heap: heap),
            "pop": lambda: self.memory.pop("heap"),
        }
        for name, reading in readings.items():
            with self.subTest(name):
                self.memory["heap"] = [1]
                heap = self.memory["heap"]
                heapq.heappush(heap, 0)
                other["heap"] = [5]
                with self.assertRaises(Conflict):
                    reading()
                self.assertEqual(reading(), [5])

    def test_a_change_past_the_methods_that_cannot_be_stored_is_told_once(self):
        rules = Memory("rules", client=self.client)
        changes = {
            "BODY_TOO_LARGE": (self.memory, "x" * (256 * 1024)),
            "MEMORY_VALUE_REFUSED": (self.memory, "\ud800"),
            "FORBIDDEN": (rules, "more"),
        }
        for code, (memory, item) in changes.items():
            with self.subTest(code):
                self.memory["heap"] = []
                heapq.heappush(memory["heap"], item)
                with self.assertRaisesRegex(DsecError, code):
                    memory["heap"]
                self.assertEqual(memory["heap"], [])

    def test_a_change_past_the_methods_for_which_there_is_no_room_yet_stays(self):
        for at in range(256):
            self.memory["full/%d" % at] = "x" * (255 * 1024)
        self.memory["heap"] = []
        heapq.heappush(self.memory["heap"], "y" * (255 * 1024))
        for _ in range(2):
            with self.assertRaisesRegex(DsecError, "MEMORY_FULL"):
                self.memory["heap"]
        del self.memory["full/0"]
        self.assertEqual(len(self.memory["heap"]), 1)
        self.assertEqual(len(self.stored("heap")), 1)

    def test_a_list_that_was_replaced_cannot_come_back(self):
        self.memory["list"] = [1]
        old = self.memory["list"]
        self.memory["list"] = ["new"]
        with self.assertRaises(Conflict):
            old.append(2)
        del self.memory["list"]
        with self.assertRaises(Conflict):
            old.append(2)
        self.assertNotIn("list", self.memory)

    def test_no_change_is_lost_among_threads_with_their_own_clients(self):
        def work():
            client = tools.Client()
            memory = Memory(client=client)
            for _ in range(20):
                memory.change("count", lambda count: count + 1, default=0)
            client.close()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.memory["count"], 80)

    def test_no_change_is_lost_among_threads_with_one_memory(self):
        self.memory["list"] = []

        def work(name):
            for at in range(20):
                self.memory["list"].append([name, at])

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(self.stored("list")), [[name, at] for name in range(4) for at in range(20)])

    def test_conditions_and_lifetimes(self):
        version = self.memory.set("key", 1, create=True)
        with self.assertRaises(Conflict):
            self.memory.set("key", 2, create=True)
        later = self.memory.set("key", [2], if_version=version, ttl_ms=60_000)
        with self.assertRaises(Conflict):
            self.memory.set("key", 3, if_version=version)
        self.memory["key"].append(3)
        self.assertGreater(self.memory.read("key")[1], later)
        kept = self.client.request("GET", "/v1/memory/key").headers
        self.assertIn("dsec-expires-at", kept)
        self.memory["key"] = 4
        self.assertNotIn("dsec-expires-at", self.client.request("GET", "/v1/memory/key").headers)

    def test_shared_memory_needs_a_grant(self):
        shared = Memory("notes", client=self.client)
        shared["from"] = "python"
        self.assertEqual(shared["from"], "python")
        self.assertNotIn("from", self.memory)
        readable = Memory("rules", client=self.client)
        self.assertEqual(readable["limit"], 3.0)
        for act in (lambda: readable.set("a", 1), lambda: Memory("other", client=self.client)["x"], readable.clear):
            with self.assertRaisesRegex(DsecError, "FORBIDDEN"):
                act()

    # B77: ordinary text that is a query elsewhere
    def test_search_takes_text_literally(self):
        texts = [
            "status: done", 'timeout "error', "retry OR", "multi-agent", "gateway/run.py", "@nasa", "it's", "50%", "a,b",
            "   ", "x" * 10_000, "NEAR(", "*", "[ab]", "\\", "new\nline", "é€😀", "{", "null",
        ]
        for at, text in enumerate(texts):
            self.memory["note %d" % at] = {"text": ["before %s after" % text]}
        for at, text in enumerate(texts):
            found = dict(self.memory.search(text))
            self.assertEqual(found["note %d" % at], {"text": ["before %s after" % text]}, text)
            self.assertLess(len(found), len(texts))
        self.assertEqual(list(self.memory.search("nothing has this")), [])
        with self.assertRaisesRegex(DsecError, "INVALID_REQUEST"):
            list(self.memory.search(""))


class Talking(MemoryTest):
    def test_messages_come_in_order_until_they_are_acknowledged(self):
        channel = Channel("python.results", client=self.client)
        ids = [channel.send({"n": n, "f": 1.0}) for n in range(5)]
        self.assertEqual(ids, [1, 2, 3, 4, 5])
        self.assertEqual([m.body["n"] for m in channel.receive()], [0, 1, 2, 3, 4])
        self.assertEqual([m.id for m in channel.receive(limit=2)], [1, 2])
        self.assertIs(type(channel.receive()[0].body["f"]), float)
        channel.acknowledge(3)
        self.assertEqual([m.id for m in channel.receive()], [4, 5])
        seen = []
        for message in channel:
            seen.append(message.id)
            if message.id == 5:
                break
        self.assertEqual(seen, [4, 5])
        self.assertEqual([m.id for m in channel.receive(wait_s=0.01)], [5])

    def test_a_declared_channel_refuses_what_its_schema_does_not_allow(self):
        channel = Channel("scores", client=self.client)
        with self.assertRaisesRegex(DsecError, r"MESSAGE_REFUSED.*/score"):
            channel.send({"score": "high"})
        channel.send({"score": 0.5})


class Connection(MemoryTest):
    def test_a_forked_child_uses_a_connection_of_its_own(self):
        self.memory["child"] = 0
        child = os.fork()
        if child == 0:
            try:
                self.memory["child"] = os.getpid()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(self.memory["child"], child)

    def test_a_child_that_is_forked_while_another_thread_is_in_a_call_waits_for_nothing(self):
        with SlowServer(self) as server:
            client = tools.Client(server.path)
            memory = Memory(client=client)
            call = threading.Thread(target=lambda: memory["slow"])
            call.start()
            server.asked.wait()
            child = os.fork()
            if child == 0:
                try:
                    memory._client._path = os.environ["DSEC_SOCKET"]
                    memory["child"] = "reached"
                    os._exit(0)
                finally:
                    os._exit(1)
            self.assertEqual(self.end_of(child), 0)
            server.answer.set()
            call.join()
            client.close()
        self.assertEqual(self.memory["child"], "reached")

    def test_no_call_waits_behind_one_that_waits_for_a_message(self):
        with SlowServer(self) as server:
            client = tools.Client(server.path)
            waiting = threading.Thread(target=lambda: Channel("silence", client=client).receive(wait_s=25))
            waiting.start()
            server.asked.wait()
            client._path = os.environ["DSEC_SOCKET"]
            writing = threading.Thread(target=lambda: Memory(client=client).set("meanwhile", 1))
            writing.start()
            writing.join(20)
            self.assertFalse(writing.is_alive())
            self.assertTrue(waiting.is_alive())
            server.answer.set()
            waiting.join()
            client.close()
        self.assertEqual(self.memory["meanwhile"], 1)

    def end_of(self, child):
        """The exit code of a child, which must not hang; -9 where it did."""
        ended = threading.Timer(20, os.kill, (child, signal.SIGKILL))
        ended.start()
        _, status = os.waitpid(child, 0)
        ended.cancel()
        return os.waitstatus_to_exitcode(status)

    def test_without_a_socket_the_error_says_where_it_looked(self):
        client = tools.Client("/nonexistent/dsec.sock")
        with self.assertRaisesRegex(Unreachable, "/nonexistent/dsec.sock"):
            Memory(client=client)["a"]

    def test_each_refusal_names_its_code_and_request(self):
        with self.assertRaises(DsecError) as caught:
            self.client.request("PATCH", "/v1/memory/a")
        self.assertEqual(caught.exception.code, "METHOD_NOT_ALLOWED")
        self.assertEqual(caught.exception.status, 405)
        self.assertTrue(caught.exception.request_id.startswith("req_"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])

"""Messages between the sandboxes of one job.

    from dsec.messages import Channel

    Channel("results").send({"score": 0.5})

    for message in Channel("tasks"):        # waits for the next one; acknowledges each when the next is asked for
        work_on(message.body)
"""

from dsec import tools
from dsec.values import dump, load

# The longest that the executor holds a request open (core/limits.ts, longPollMs).
_LONGEST_WAIT_MS = 25_000


class Message:
    """`id` counts up by one within the channel; `sender` is the sandbox's name; `sent_at` is RFC 3339 in UTC."""

    def __init__(self, item):
        self.id = item["id"]
        self.sender = item["from"]
        self.sent_at = item["at"]
        self.body = item["body"]

    def __repr__(self):
        return "<Message %d from %s: %r>" % (self.id, self.sender, self.body)


class Channel:
    """A channel by its name. Every sandbox of the job that receives gets every message, in order."""

    def __init__(self, name, client=None):
        self.name = name
        self._client = client or tools.default_client()
        self._path = "/v1/messages/" + tools.segment(name)

    def send(self, body):
        """Sends a JSON value and returns the message's id. DsecError with CHANNEL_FULL: nothing was sent, try later."""
        headers = {"content-type": "application/json"}
        answer = self._client.request("POST", self._path, dump(body).encode("utf-8"), headers)
        return load(answer.body)["id"]

    def receive(self, wait_s=0.0, limit=100, after=None):
        """What this sandbox has not acknowledged, oldest first; waits so many seconds for a first message. Until they
        are acknowledged, the same messages come again; `after` asks for later ones all the same."""
        query = {"after": after, "limit": limit, "wait_ms": min(int(wait_s * 1000), _LONGEST_WAIT_MS)}
        with self._client.apart() as client:
            answer = client.request("GET", self._path, query=query)
        return [Message(item) for item in load(answer.body)["items"]]

    def acknowledge(self, message):
        """Says that this message and all before it have been dealt with."""
        through = message.id if isinstance(message, Message) else message
        headers = {"content-type": "application/json"}
        self._client.request("POST", self._path + "/ack", dump({"through": through}).encode("utf-8"), headers)

    def __iter__(self):
        while True:
            for message in self.receive(wait_s=_LONGEST_WAIT_MS / 1000):
                yield message
                self.acknowledge(message)

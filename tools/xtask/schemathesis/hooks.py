"""What schemathesis cannot know of the API, and a count of how its examples are answered.

The description calls the addresses of a batch `idn-email` and says nothing of which ones are there; here they get
domains of mailnet's scenario, and others that do not exist. An idempotency key belongs to one body, so every example
gets its own; and `mode` and `detail` must not say one thing in the query and another in the body, so there the query stays
silent. URLs of webhooks get a form that the API accepts.

Some operations on a list need a state: a start needs a list that was read, a part needs the offset of an upload. Each positive
example of them gets a list in this state. Each positive example of a deletion gets a webhook or list of its own, unless it
deletes what an example has created. An account has at most ten webhooks and 50 lists, so the hooks delete created ones: at
once in the phases that ask each operation alone, and later in scenarios, which use what they create. At the end the count of
answers goes to the file that MAILPROBE_COUNTS names.
"""

import atexit
import collections
import json
import os
import time
import urllib.request
import uuid

import schemathesis
from hypothesis import strategies as st
from schemathesis.generation.meta import TestPhase
from schemathesis.transport.serialization import Binary

KEY = "Idempotency-Key"
KEY_CHARS_MAX = 255

ATOM = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789!#$%&'*+-/=?^_`{|}~", min_size=1, max_size=12)
UTF8_ATOM = st.text("zoëßøжλ語", min_size=1, max_size=8)
DOTTED = st.lists(st.one_of(ATOM, ATOM, ATOM, UTF8_ATOM), min_size=1, max_size=3).map(".".join)
QUOTED = st.text("ab (),:;<>@[].", min_size=1, max_size=12).map(lambda text: f'"{text}"')
KNOWN = st.sampled_from(["alice", "bob", "info", "trap", "full", "gone", "user-1", "user-2"])
LOCAL = st.one_of(KNOWN, DOTTED, DOTTED, QUOTED)
DOMAIN = st.one_of(
    st.sampled_from(["ok.example", "OK.Example", "catchall.example", "mailinator.com", "trapped.example"]),
    st.sampled_from(["nxdomain.example", "nullmx.example", "nomail.example", "βόλος.example"]),
    st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20).map(lambda label: f"{label}.example"),
)
ADDRESS = st.builds("{}@{}".format, LOCAL, DOMAIN)

schemathesis.openapi.format("idn-email", ADDRESS)

NAME = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20)
# A percent sign needs two hexadecimal digits (RFC 3986 2.1).
TARGET = st.lists(st.sampled_from([*"abcXYZ019-._~/?&=", "%2F", "%c3%A9"]), max_size=40).map("".join)
schemathesis.openapi.format("uri", st.builds("https://{}.hooks.example/{}".format, NAME, TARGET))


def content(body):
    return body.data if isinstance(body, Binary) else body.encode()


# Without this, a body of the format `binary` is sent as an empty one: for a text type, schemathesis writes texts only.
schemathesis.serializer("text/csv")(lambda context, body: content(body))


def api(method, path, body=None, headers=None):
    """A request of our own, beside the examples. Bytes are sent as they are, other bodies as JSON."""
    kind = "text/csv" if isinstance(body, bytes) else "application/json"
    headers = {"Authorization": f"Bearer {os.environ['MAILPROBE_KEY']}", "Content-Type": kind, **(headers or {})}
    url = os.environ["MAILPROBE_URL"] + path
    body = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


def is_stateful(case):
    return case.meta is not None and case.meta.phase.name == TestPhase.STATEFUL


class Created:
    """The objects of one kind that examples have created and no example has deleted."""

    # A scenario has at most 6 steps (`max-steps` of schemathesis), so the newest 6 can be in use.
    KEPT = 6

    def __init__(self, path, field):
        self.path = path
        self.field = field
        self.ids = []

    def on_created(self, case, response):
        created = response.json()[self.field]
        if created not in self.ids:
            # Otherwise this is the answer to a repeated Idempotency-Key.
            self.ids.append(created)
        while len(self.ids) > (self.KEPT if is_stateful(case) else 0):
            api("DELETE", f"{self.path}/{self.ids.pop(0)}")

    def on_deleted(self, case):
        if case.path_parameters[self.field] in self.ids:
            self.ids.remove(case.path_parameters[self.field])

    def has(self, case):
        return case.path_parameters[self.field] in self.ids


WEBHOOKS = Created("/v1/webhooks", "webhook_id")
LISTS = Created("/v1/lists", "list_id")
CONTENT = b"email\nalice@ok.example\nnobody@ok.example\n"
# The paths of the objects that the hooks made for the current example, and that it does not delete.
made = []


def make_list(case, body):
    own = api("POST", "/v1/lists", body)["list_id"]
    case.path_parameters["list_id"] = own
    made.append(f"/v1/lists/{own}")
    return made[-1]


def make_webhook(case):
    own = api("POST", "/v1/webhooks", {"url": "https://own.hooks.example/"})["webhook_id"]
    case.path_parameters["webhook_id"] = own
    made.append(f"/v1/webhooks/{own}")


def ready_list(case):
    path = make_list(case, CONTENT)
    while api("GET", path)["status"] != "ready":
        time.sleep(0.005)


def uploading_list(case):
    """A list that has one byte, and whose other bytes are the body of the example."""
    body = case.body if isinstance(case.body, bytes) else content(case.body)
    path = make_list(case, {"bytes": 1 + len(body)})
    api("PATCH", path, b"\n", {"Upload-Offset": "0"})
    case.headers["Upload-Offset"] = "1"


@schemathesis.hook
def before_call(context, case, kwargs):
    if not is_positive(case):
        return
    if case.headers is not None and KEY in case.headers:
        own = uuid.uuid4().hex
        case.headers[KEY] = case.headers[KEY][: KEY_CHARS_MAX - len(own)] + own
    match case.operation.label:
        case "DELETE /v1/webhooks/{webhook_id}" if not WEBHOOKS.has(case):
            make_webhook(case)
        case "POST /v1/webhooks/{webhook_id}/rotate" if not WEBHOOKS.has(case):
            # A secret can be replaced three times in 24 hours.
            make_webhook(case)
        case "PATCH /v1/webhooks/{webhook_id}" if isinstance(case.body, dict) and case.body.get("enabled") is False:
            # A disabled one takes no tests.
            case.body["enabled"] = True
        case "POST /v1/lists" if is_stateful(case) and isinstance(case.body, dict):
            # The lists of a scenario together fit in the account.
            case.body["bytes"] = min(case.body["bytes"], 1 << 20)
        case "POST /v1/lists" if isinstance(case.body, str) and not content(case.body):
            # Some examples have fewer than `minLength` bytes all the same.
            case.body = Binary(CONTENT)
        case "DELETE /v1/lists/{list_id}" if not LISTS.has(case):
            make_list(case, CONTENT)
        case "POST /v1/lists/{list_id}/start" if not LISTS.has(case):
            ready_list(case)
        case "PATCH /v1/lists/{list_id}":
            uploading_list(case)
    if isinstance(case.body, dict) and case.query:
        for name in ("mode", "detail"):
            if case.body.get(name) not in (None, case.query.get(name)):
                case.query.pop(name, None)


counts = collections.defaultdict(collections.Counter)


@schemathesis.hook
def after_call(context, case, response):
    mode = "positive" if is_positive(case) else "negative"
    counts[case.operation.label][f"{mode} {response.status_code}"] += 1
    match case.operation.label, response.status_code:
        case "POST /v1/webhooks", 201:
            WEBHOOKS.on_created(case, response)
        case "POST /v1/lists", 201:
            LISTS.on_created(case, response)
        case "DELETE /v1/webhooks/{webhook_id}", 204:
            WEBHOOKS.on_deleted(case)
            made.clear()
        case "DELETE /v1/lists/{list_id}", 204:
            LISTS.on_deleted(case)
            made.clear()
    while made:
        api("DELETE", made.pop())


@atexit.register
def write_counts():
    path = os.environ.get("MAILPROBE_COUNTS")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(counts, file)

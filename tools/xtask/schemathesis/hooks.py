"""What schemathesis cannot know of the API, and a count of how its examples are answered.

The description calls the addresses of a batch `idn-email` and says nothing of which ones are there; here they get
domains of mailnet's scenario, and others that do not exist. An idempotency key belongs to one body, so every example
gets its own; and `mode` and `detail` must not say one thing in the query and another in the body, so there the query stays
silent. URLs of webhooks get a form that the API accepts. An account has at most ten of them, so a new one is deleted at once, and each
example of a deletion gets one of its own. At the end the count goes to the file that MAILPROBE_COUNTS names.
"""

import atexit
import collections
import json
import os
import urllib.request
import uuid

import schemathesis
from hypothesis import strategies as st

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
TARGET = st.text("abcXYZ019-._~/?&=%", max_size=40)
schemathesis.openapi.format("uri", st.builds("https://{}.hooks.example/{}".format, NAME, TARGET))


def api(method, path, body=None):
    """A request of our own, beside the examples."""
    headers = {"Authorization": f"Bearer {os.environ['MAILPROBE_KEY']}", "Content-Type": "application/json"}
    url = os.environ["MAILPROBE_URL"] + path
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    if not is_positive(case):
        return
    if case.headers is not None and KEY in case.headers:
        own = uuid.uuid4().hex
        case.headers[KEY] = case.headers[KEY][: KEY_CHARS_MAX - len(own)] + own
    if case.operation.label == "DELETE /v1/webhooks/{webhook_id}":
        made = api("POST", "/v1/webhooks", {"url": "https://deleted.hooks.example/"})
        case.path_parameters["webhook_id"] = made["webhook_id"]
    if case.operation.label == "PATCH /v1/webhooks/{webhook_id}" and isinstance(case.body, dict):
        if case.body.get("enabled") is False:
            # A disabled one takes no tests.
            case.body["enabled"] = True
    if isinstance(case.body, dict) and case.query:
        for name in ("mode", "detail"):
            if case.body.get(name) not in (None, case.query.get(name)):
                case.query.pop(name, None)


counts = collections.defaultdict(collections.Counter)


@schemathesis.hook
def after_call(context, case, response):
    mode = "positive" if is_positive(case) else "negative"
    counts[case.operation.label][f"{mode} {response.status_code}"] += 1
    if case.operation.label == "POST /v1/webhooks" and response.status_code == 201:
        api("DELETE", f"/v1/webhooks/{response.json()['webhook_id']}")


@atexit.register
def write_counts():
    path = os.environ.get("MAILPROBE_COUNTS")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(counts, file)

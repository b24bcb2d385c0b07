"""A server of the API for the tests of the clients: it keeps its objects in memory, and fails as a script tells it.

`python3 scripted.py` listens on a free port of 127.0.0.1, prints `listening URL`, and serves until its standard input ends. Verdicts are
those of the test mode: the local part of an address selects the reason. A list that is read is ready at the next request, and a
list or batch that runs is completed after two more.

| request | meaning |
| --- | --- |
| `POST /control/faults` with `[{"method", "path", "times", ...}]` | adds faults. A fault applies to requests with its method and a path that its expression matches |
| `POST /control/end-faults` | removes all faults |
| `GET /control/journal` | all requests since the last reset: method, target, headers in lower case, length of the body, body if it is short |
| `POST /control/reset` | forgets the objects, faults and requests |

A fault has one of these keys:

| key | behaviour |
| --- | --- |
| `status`, with `headers` and `body` | this answer; the request does nothing |
| `reset_after` | reads this number of bytes of the body, keeps them if the request is a part of an upload, and resets the connection |
| `lose` | does what the request wants, and resets the connection before the answer |
| `truncate` | sends the answer without its last bytes, and closes the connection |
| `delay_s` | waits, and then answers as usual |
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import socket
import struct
import sys
import threading
import time
import uuid
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

POLLS_UNTIL_END = 2
BODY_SHOWN_MAX = 4096
PAGE = 2
SAME_WORD = {"disposable", "spamtrap", "inbox_full", "mailbox_disabled", "catch_all", "unverifiable"}
UNKNOWN = {"catch_all", "unverifiable"}
CREATED = "2026-11-25T12:00:00Z"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ADDRESS = re.compile(r"[^@\s,]+@[^@\s,]+\.[^@\s,]+")


class Refused(Exception):
    """An error answer."""

    def __init__(self, status, code, message="refused", **more):
        self.status, self.body = status, {"error": code, "message": message, **more}


def verdict(address):
    """The reason of the test mode, and whether the address is deliverable."""
    if not ADDRESS.fullmatch(address):
        return "invalid_syntax", False
    local = address.split("@")[0].split("+")[0]
    if local in ("deliverable", "role"):
        return {"deliverable": "mailbox_exists", "role": "role_account"}[local], True
    return (local if local in SAME_WORD else "mailbox_not_found"), False


def class_of(reason, deliverable):
    if deliverable:
        return "deliverable"
    return "unknown" if reason in UNKNOWN else "undeliverable"


def archive(name, content):
    """A zip file with one file, as a stand-in for a spreadsheet."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive_:
        archive_.writestr(name, content)
    return file.getvalue()


class State:
    """All objects, and the script."""

    def __init__(self):
        self.lock = threading.Lock()
        self.reset()

    def reset(self):
        self.batches, self.lists, self.webhooks = {}, {}, {}
        self.keys, self.faults, self.journal = {}, [], []

    def fault(self, method, target):
        for fault in self.faults:
            if fault["times"] > 0 and fault["method"] == method and re.search(fault["path"], target):
                fault["times"] -= 1
                return fault
        return {}


STATE = State()


class MailList:
    """An uploaded list."""

    def __init__(self, name, column, content=None):
        self.id = "lst_" + uuid.uuid4().hex[:12]
        self.name, self.column = name, column
        self.content = bytearray(content or b"")
        self.announced = None
        self.state = "uploading" if content is None else "reading"
        self.polls, self.rows, self.header = 0, [], []

    def read(self):
        rows = list(csv.reader(io.StringIO(self.content.decode(errors="replace"))))
        self.header = rows[0] if rows and not any(ADDRESS.fullmatch(cell) for cell in rows[0]) else []
        body = rows[1:] if self.header else rows
        names = [self.column, "email", "address"]
        index = next((self.header.index(name) for name in names if name in self.header), 0)
        self.rows = [(row, *verdict(row[index] if len(row) > index else "")) for row in body]
        self.index = index
        self.state = "ready" if self.rows else "unfit"

    def on_poll(self):
        if self.state == "reading":
            self.polls += 1
            if self.polls > 1:
                self.read()
        elif self.state == "running":
            self.polls += 1
            if self.polls >= POLLS_UNTIL_END:
                self.state = "completed"

    def shown(self):
        is_read = self.state not in ("uploading", "reading", "unfit")
        addresses = [row[self.index] for row, reason, _ in self.rows if reason != "invalid_syntax"] if is_read else []
        counts = {}
        distinct = {row[self.index]: reason for row, reason, _ in self.rows if reason != "invalid_syntax"} if is_read else {}
        for reason in distinct.values() if self.state == "completed" else ():
            counts[reason] = counts.get(reason, 0) + 1
        return {
            "list_id": self.id, "name": self.name, "status": self.state,
            "bytes": len(self.content) if self.announced is None else self.announced, "offset": len(self.content),
            "rows": len(self.rows) if is_read else None, "addresses": len(addresses) if is_read else None,
            "distinct": len(set(addresses)) if is_read else None,
            "checked": len(distinct) if self.state == "completed" else 0,
            "progress": 100 if self.state == "completed" else 0,
            "credits_required": len(set(addresses)) if is_read else None, "credits_charged": 0,
            "credits_reserved": 0, "counts": counts,
            "waiting": [{"cause": "queue", "addresses": len(set(addresses)), "until": None}] if self.state == "running" else [],
            "problem": "no row has an address" if self.state == "unfit" else None,
            "created_at": CREATED, "expires_at": "2026-12-25T12:00:00.123456789+00:00",
        }

    def results(self, form, classes):
        chosen = [item for item in self.rows if not classes or class_of(item[1], item[2]) in classes]
        if form == "jsonl":
            names = self.header or [f"column_{number}" for number in range(1, 100)]
            lines = [dict(zip(names, row), deliverable=good, reason=reason) for row, reason, good in chosen]
            return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode(), "application/jsonl"
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        if self.header:
            writer.writerow([*self.header, "deliverable", "reason"])
        for row, reason, good in chosen:
            writer.writerow([*row, "true" if good else "false", reason])
        if form == "xlsx":
            return archive("xl/worksheets/sheet1.xml", out.getvalue().encode()), XLSX
        return out.getvalue().encode(), "text/csv"


class Batch:
    """Addresses of one request."""

    def __init__(self, emails):
        self.id, self.emails, self.state, self.polls = "bat_" + uuid.uuid4().hex[:12], emails, "processing", 0
        self.is_cancelled = False

    def on_poll(self):
        self.polls += 1
        if self.state == "processing" and self.polls >= POLLS_UNTIL_END:
            self.state = "completed"

    def shown(self, with_results=True):
        rows = None
        if with_results and self.state != "processing":
            found = [(email, *(("unverifiable", False) if self.is_cancelled else verdict(email))) for email in self.emails]
            rows = [{"email": email, "deliverable": good, "reason": reason} for email, reason, good in found]
        done = len(self.emails) if self.state != "processing" else 0
        return {"batch_id": self.id, "status": self.state, "progress": 100 if done else 0, "total": len(self.emails),
                "checked": done, "results": rows}


def page(items, query, name, show):
    """The newest first."""
    newest = list(items)[::-1]
    ids = [item.id if hasattr(item, "id") else item["message_id"] for item in newest]
    after = query.get("after", [None])[0]
    start = ids.index(after) + 1 if after in ids else 0
    size = int(query.get("limit", [PAGE])[0])
    part = newest[start:start + size]
    more = start + size < len(newest)
    return {name: [show(item) for item in part], "next": ids[start + size - 1] if more else None}


def found(objects, key):
    if key not in objects:
        raise Refused(404, "not_found")
    return objects[key]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_any(self):
        parts = urlsplit(self.path)
        self.taken = b""
        if parts.path.startswith("/control/"):
            return self.control(parts.path)
        # A request that waits belongs to the test that has sent it.
        journal = STATE.journal
        fault = STATE.fault(self.command, self.path)
        time.sleep(fault.get("delay_s", 0))
        body = self.body(fault.get("reset_after"))
        with STATE.lock:
            journal.append({
                "method": self.command, "target": self.path, "bytes": len(body),
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "body": body.decode(errors="replace") if len(body) <= BODY_SHOWN_MAX else None,
            })
            if "reset_after" in fault:
                self.keep_part(parts.path, body)
                return self.reset()
            if "status" in fault:
                return self.answer(fault["status"], fault.get("body", {}), fault.get("headers", {}))
            try:
                status, answer, headers = self.route(parts.path, parse_qs(parts.query, keep_blank_values=True), body)
            except Refused as refused:
                status, answer, headers = refused.status, refused.body, {}
        if fault.get("lose"):
            return self.reset()
        self.answer(status, answer, headers, cut=fault.get("truncate", False))

    do_GET = do_POST = do_PATCH = do_DELETE = do_any

    def body(self, limit=None):
        if self.headers.get("transfer-encoding") == "chunked":
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length if limit is None else min(length, limit))
        if limit is None and len(body) < length:
            raise ConnectionError("the client has ended the connection within its request")
        return body

    def keep_part(self, path, body):
        match = re.fullmatch(r"/v1/lists/(\w+)", path)
        if self.command == "PATCH" and match and match[1] in STATE.lists:
            STATE.lists[match[1]].content += body

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()
        self.close_connection = True
        # The connection is gone, and so are its files.
        self.rfile, self.wfile = io.BytesIO(), io.BytesIO()

    def answer(self, status, body, headers, cut=False):
        kind = headers.pop("content-type", "application/json") if isinstance(headers, dict) else "application/json"
        content = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("x-request-id", "req-1")
        if status != 204:
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if status != 204:
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.close_connection = True

    def control(self, path):
        body = self.body()
        with STATE.lock:
            if path == "/control/reset":
                STATE.reset()
            elif path == "/control/end-faults":
                STATE.faults = []
            elif path == "/control/faults":
                STATE.faults += [{"times": 1, **fault} for fault in json.loads(body)]
            journal = list(STATE.journal)
        self.answer(200, journal if path == "/control/journal" else {}, {})

    def route(self, path, query, body):
        key = self.headers.get("authorization", "")
        if not key.startswith("Bearer "):
            raise Refused(401, "missing_api_key")
        if key in ("Bearer unknown", "Bearer revoked"):
            raise Refused(401, {"unknown": "invalid_api_key", "revoked": "api_key_revoked"}[key[7:]])
        for method, pattern, function in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                return function(self, query, body, *match.groups())
        raise Refused(404, "not_found")

    def once(self, print_, make):
        """Applies the Idempotency-Key. `print_` is what identifies the request."""
        key = self.headers.get("idempotency-key")
        if key in STATE.keys:
            earlier, answer = STATE.keys[key]
            if earlier != print_:
                raise Refused(422, "idempotency_key_reused")
            return (*answer, {"Idempotent-Replayed": "true"})
        answer = make()
        if key:
            STATE.keys[key] = (print_, answer)
        return (*answer, {})

    def account(self, query, body):
        return 200, {"plan": "free", "plan_name": "Free", "status": "active", "credits_remaining": 100,
                     "credits_total": 100, "pack_credits": 0, "period_end": "2026-12-25T12:00:00+00:00",
                     "cancel_at_period_end": False}, {}

    def verify(self, query, body):
        asked = json.loads(body)
        reason, good = verdict(asked["email"])
        answer = {"email": asked["email"], "deliverable": good, "reason": reason, "credits_remaining": None}
        if asked.get("mode") == "fast":
            answer.update(deliverable=None, reason="fast_check_passed", mode="fast", suggestion=None, checks={
                "mx": True, "disposable": False, "role_account": False, "free_email": False})
        return 200, answer, {}

    def create_batch(self, query, body):
        asked = json.loads(body)

        def make():
            emails = asked["emails"]
            bad = [{"index": index, "email": email} for index, email in enumerate(emails) if not ADDRESS.fullmatch(email)]
            if bad:
                raise Refused(400, "invalid_emails", invalid=bad[:10], invalid_count=len(bad))
            batch = Batch(emails)
            STATE.batches[batch.id] = batch
            return 202, {"batch_id": batch.id, "emails_submitted": len(emails), "status": "processing",
                         "credits_remaining": None}

        return self.once(body, make)

    def list_batches(self, query, body):
        return 200, page(STATE.batches.values(), query, "batches", lambda batch: batch.shown(False)), {}

    def get_batch(self, query, body, id_):
        batch = found(STATE.batches, id_)
        batch.on_poll()
        return 200, batch.shown(), {}

    def cancel_batch(self, query, body, id_):
        batch = found(STATE.batches, id_)
        batch.state, batch.is_cancelled = "completed", batch.state == "processing"
        return 202, batch.shown(), {}

    def create_list(self, query, body):
        if self.headers.get("content-type", "").startswith("application/json"):
            asked = json.loads(body)
            if not asked.get("bytes"):
                raise Refused(400, "invalid_request")

            def make():
                made = MailList(asked.get("name"), asked.get("column"))
                made.announced = asked.get("bytes")
                STATE.lists[made.id] = made
                return 201, made.shown()

            return self.once(body, make)

        def make_whole():
            made = MailList(query.get("name", [None])[0], query.get("column", [None])[0], body)
            STATE.lists[made.id] = made
            return 201, made.shown()

        return self.once(self.path, make_whole)

    def list_lists(self, query, body):
        return 200, page(STATE.lists.values(), query, "lists", MailList.shown), {}

    def upload_part(self, query, body, id_):
        it = found(STATE.lists, id_)
        if it.state != "uploading":
            raise Refused(409, "invalid_state")
        if int(self.headers["upload-offset"]) != len(it.content):
            raise Refused(409, "offset_mismatch", offset=len(it.content))
        it.content += body
        if self.headers.get("upload-complete") == "?1":
            if len(it.content) != it.announced:
                raise Refused(400, "invalid_request")
            it.state = "reading"
        return 200, it.shown(), {}

    def get_list(self, query, body, id_):
        it = found(STATE.lists, id_)
        it.on_poll()
        return 200, it.shown(), {}

    def start_list(self, query, body, id_):
        it = found(STATE.lists, id_)
        if it.state in ("ready", "paused"):
            it.state, it.polls = "running", 0
        elif it.state not in ("running", "completed"):
            raise Refused(409, "invalid_state")
        return 202, it.shown(), {}

    def cancel_list(self, query, body, id_):
        it = found(STATE.lists, id_)
        it.state = "cancelled" if it.state in ("running", "paused") else it.state
        return 202, it.shown(), {}

    def results(self, query, body, id_):
        it = found(STATE.lists, id_)
        if it.state not in ("completed", "cancelled"):
            raise Refused(409, "invalid_state")
        content, kind = it.results(query.get("format", ["csv"])[0], query.get("class", []))
        return 200, content, {"content-type": kind}

    def delete_list(self, query, body, id_):
        found(STATE.lists, id_)
        del STATE.lists[id_]
        return 204, {}, {}

    def create_webhook(self, query, body):
        asked = json.loads(body)
        made = Webhook(asked)
        STATE.webhooks[made.id] = made
        return 201, made.shown(with_secret=True), {}

    def list_webhooks(self, query, body):
        return 200, {"webhooks": [webhook.shown() for webhook in STATE.webhooks.values()]}, {}

    def get_webhook(self, query, body, id_):
        return 200, found(STATE.webhooks, id_).shown(), {}

    def update_webhook(self, query, body, id_):
        it = found(STATE.webhooks, id_)
        it.fields.update(json.loads(body))
        it.fields["label"] = it.fields["label"] or None
        return 200, it.shown(), {}

    def delete_webhook(self, query, body, id_):
        found(STATE.webhooks, id_)
        del STATE.webhooks[id_]
        return 204, {}, {}

    def rotate_webhook(self, query, body, id_):
        it = found(STATE.webhooks, id_)
        it.secret = new_secret()
        return 200, it.shown(with_secret=True), {}

    def test_webhook(self, query, body, id_):
        it = found(STATE.webhooks, id_)
        message = "msg_" + uuid.uuid4().hex[:12]
        attempt = {"at": CREATED, "duration_ms": 12, "status": 204, "error": None}
        it.deliveries.append({"message_id": message, "type": "webhook.test", "object_id": id_, "created_at": CREATED,
                              "status": "delivered", "attempts": [attempt], "next_attempt_at": None})
        return 202, {"message_id": message}, {}

    def deliveries(self, query, body, id_):
        return 200, page(found(STATE.webhooks, id_).deliveries, query, "deliveries", lambda item: item), {}


class Webhook:
    """An endpoint."""

    def __init__(self, asked):
        self.id, self.secret, self.deliveries = "whk_" + uuid.uuid4().hex[:12], new_secret(), []
        self.fields = {"url": asked["url"], "events": asked.get("events") or ["batch.completed", "list.completed"],
                       "label": asked.get("label"), "enabled": True}

    def shown(self, with_secret=False):
        shown = {"webhook_id": self.id, **self.fields, "disabled_reason": None if self.fields["enabled"] else "owner",
                 "failing_since": None, "waiting": 0, "missed": 0, "old_secret_until": None, "created_at": CREATED}
        return {**shown, "secret": self.secret} if with_secret else shown


def new_secret():
    return "whsec_" + base64.b64encode(os.urandom(24)).decode()


ROUTES = [
    ("GET", "/v1/account", Handler.account),
    ("POST", "/v1/verify", Handler.verify),
    ("POST", "/v1/verify/batch", Handler.create_batch),
    ("GET", "/v1/verify/batch", Handler.list_batches),
    ("GET", r"/v1/verify/batch/(\w+)", Handler.get_batch),
    ("POST", r"/v1/verify/batch/(\w+)/cancel", Handler.cancel_batch),
    ("POST", "/v1/lists", Handler.create_list),
    ("GET", "/v1/lists", Handler.list_lists),
    ("PATCH", r"/v1/lists/(\w+)", Handler.upload_part),
    ("GET", r"/v1/lists/(\w+)", Handler.get_list),
    ("POST", r"/v1/lists/(\w+)/start", Handler.start_list),
    ("POST", r"/v1/lists/(\w+)/cancel", Handler.cancel_list),
    ("GET", r"/v1/lists/(\w+)/results", Handler.results),
    ("DELETE", r"/v1/lists/(\w+)", Handler.delete_list),
    ("POST", "/v1/webhooks", Handler.create_webhook),
    ("GET", "/v1/webhooks", Handler.list_webhooks),
    ("GET", r"/v1/webhooks/(\w+)", Handler.get_webhook),
    ("PATCH", r"/v1/webhooks/(\w+)", Handler.update_webhook),
    ("DELETE", r"/v1/webhooks/(\w+)", Handler.delete_webhook),
    ("POST", r"/v1/webhooks/(\w+)/rotate", Handler.rotate_webhook),
    ("POST", r"/v1/webhooks/(\w+)/test", Handler.test_webhook),
    ("GET", r"/v1/webhooks/(\w+)/deliveries", Handler.deliveries),
]


class Server(ThreadingHTTPServer):
    """Clients may end connections at any time."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, ValueError)):
            super().handle_error(request, client_address)


def main():
    """Serves until standard input ends, so that no process stays behind after its tests."""
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

"""Verifies a message as the Python example of docs/webhooks.md does: the secret is an argument, the rest is JSON on stdin."""

import json
import sys

from standardwebhooks import WebhookVerificationError

given = json.load(sys.stdin)
page = {}
exec(given["example"], page)
try:
    print(json.dumps(page["receive"](sys.argv[1], given["headers"], given["body"])))
except WebhookVerificationError as error:
    print(f"refused: {error}")

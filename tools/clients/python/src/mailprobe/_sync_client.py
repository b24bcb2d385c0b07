"""The synchronous client. scripts/unasync.py writes this file from `_async_client.py`. Do not edit it."""

from __future__ import annotations

import json
import os
import random
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import (
    IO,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Literal,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

import httpx

from . import _sync_io as io
from . import _calls as calls
from ._calls import Call, Page
from ._lines import JsonLines
from ._polling import Polling
from ._retries import Retries, Attempts, may_repeat
from ._source import Content, Source
from ._version import __version__
from .errors import (
    ApiError,
    ListStoppedError,
    MailprobeError,
    NotFoundError,
    OffsetMismatchError,
    TransportError,
    TransportTimeoutError,
    UnexpectedAnswerError,
    UploadError,
    UploadInterruptedError,
    api_error,
)
from .models import (
    Account,
    Batch,
    BatchCreated,
    Delivery,
    MailList,
    Mode,
    ResultClass,
    ResultRow,
    ResultsFormat,
    Verification,
    WebhookEndpoint,
)

T = TypeVar("T")

#: A full check may wait a minute for the mail server of the recipient.
TIMEOUT_S = 90.0
#: The size of a part of an upload.
PART_BYTES = 8 << 20

_USER_AGENT = f"mailprobe-python/{__version__}"
#: Failures before the server can have received the request.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.ProxyError)


class Client:
    """A connection to a server of mailprobe.

    Use it as a context manager, or call `close` at the end. One client serves any number of threads.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout: float = TIMEOUT_S,
        retries: Optional[Retries] = None,
        http: Optional[httpx.Client] = None,
    ) -> None:
        """`base_url` is the URL of the server without `/v1`. `timeout` is the longest wait for an event of the network, such as the
        next bytes of an answer, in seconds. `http` replaces the HTTP client, for example to use a proxy; the caller closes it.
        """
        self._base_url = calls.base_url(base_url)
        self._authorization = f"Bearer {calls.api_key(api_key)}"
        self._timeout = timeout
        self._retries = Retries() if retries is None else retries
        self._owns_http = http is None
        self._http = httpx.Client() if http is None else http
        #: Batches of up to 200 addresses.
        self.batches = Batches(self)
        #: Lists of any length.
        self.lists = Lists(self)
        #: The endpoints that get a message when a batch or list ends.
        self.webhooks = Webhooks(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._base_url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, unless they belong to an `http` of the caller."""
        if self._owns_http:
            self._http.close()

    def verify(self, email: str, *, mode: Mode = "full", detail: bool = False) -> Verification:
        """Checks one address.

        A full check asks the mail server of the recipient and costs one credit. A check with `mode="fast"` is free and asks no mail
        server. `detail` adds the detail block to a full check.
        """
        return self._call(calls.verify(email, mode, detail))

    def account(self) -> Account:
        """The account of the key: plan, status and balance."""
        return self._call(calls.account())

    def _call(self, call: Call[T]) -> T:
        """Sends a request, again if that is safe, and reads its answer."""
        attempts = self._attempts()
        is_again = False
        while True:
            try:
                return self._once(call)
            except NotFoundError:
                if call.deletes and is_again:
                    return call.parse(None)
                raise
            except MailprobeError as error:
                wait = attempts.next_wait(error, repeatable=call.repeatable)
                if wait is None:
                    raise
            is_again = True
            io.sleep(wait)

    def _once(self, call: Call[T], content: Any = None) -> T:
        """Sends a request once, and reads its answer. An error has the Idempotency-Key of the request."""
        try:
            with self._answer(call, content) as answer:
                body = self._body(answer)
            return call.parse(_json(body, answer.status_code))
        except MailprobeError as error:
            error.idempotency_key = call.headers.get(calls.IDEMPOTENCY_KEY)
            raise

    @contextmanager
    def _answer(self, call: Call[Any], content: Any = None) -> Iterator[httpx.Response]:
        """The answer to a request with a status of success. Its body is not read yet."""
        request = self._http.build_request(
            call.method,
            self._base_url + call.path,
            params=list(call.query),
            json=call.json,
            content=call.content if content is None else content,
            headers={
                "Accept": "application/json",
                "User-Agent": _USER_AGENT,
                **call.headers,
                "Authorization": self._authorization,
            },
            timeout=self._timeout,
        )
        try:
            answer = self._http.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                self._check(answer)
                yield answer
            finally:
                answer.close()
        except httpx.RequestError as error:
            sent, name = not isinstance(error, _NOT_SENT), type(error).__name__
            if isinstance(error, httpx.TimeoutException):
                raise TransportTimeoutError(f"{name} after {self._timeout} s", sent=sent) from error
            raise TransportError(f"{name}: {error}", sent=sent) from error

    def _check(self, answer: httpx.Response) -> None:
        """Raises the error of an answer without success."""
        status = answer.status_code
        if 200 <= status < 300:
            return
        if status < 400:
            # The key must not go to another host.
            raise UnexpectedAnswerError(f"the server redirects ({status}); use its final URL", status=status)
        try:
            body = json.loads(self._body(answer))
        except (ValueError, UnexpectedAnswerError):
            body = None
        raise api_error(status, answer.headers, body)

    def _body(self, answer: httpx.Response) -> bytes:
        body = bytearray()
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > calls.ANSWER_BYTES_MAX:
                raise UnexpectedAnswerError("the answer is too long", status=answer.status_code)
        return bytes(body)

    def _attempts(self) -> Attempts:
        return Attempts(self._retries, random.random)

    def _poll(self, call: Call[T], polling: Polling, is_end: Callable[[T], bool]) -> T:
        """Repeats a request until its answer is the end."""
        while True:
            found = self._call(call)
            if is_end(found):
                return found
            io.sleep(polling.next_pause())

    def _pages(self, page_after: Callable[[Optional[str]], Call[Page[T]]]) -> Iterator[T]:
        """The items of all pages. A page is requested when its first item is needed."""
        after: Optional[str] = None
        while True:
            page = self._call(page_after(after))
            for item in page.items:
                yield item
            if page.next is None:
                return
            if page.next == after:
                raise UnexpectedAnswerError("the cursor of the pages does not advance")
            after = page.next


class Batches:
    """Batches: up to 200 addresses in one request."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(
        self, emails: Sequence[str], *, name: Optional[str] = None, idempotency_key: Optional[str] = None
    ) -> BatchCreated:
        """Starts a batch. It costs one credit for each address.

        Without an `idempotency_key`, the client makes one. All retries of the call send the same key, so they start one batch. If
        the call fails, `error.idempotency_key` is the key: pass it to the next call, or the next call may start a second batch.
        """
        return self._client._call(calls.create_batch(emails, name, idempotency_key))

    def get(self, batch_id: str) -> Batch:
        """The state of a batch. A batch that has ended has its results."""
        return self._client._call(calls.get_batch(batch_id))

    def wait(self, batch_id: str, *, timeout: Optional[float] = None, interval: Optional[float] = None) -> Batch:
        """Polls until the batch is completed or cancelled.

        `timeout` is the longest wait in seconds; then WaitTimeoutError is raised. `interval` is the pause between two polls. The
        default begins with half a second and ends with five.
        """
        polling = Polling(f"the batch {batch_id}", timeout, interval)
        return self._client._poll(calls.get_batch(batch_id), polling, lambda batch: batch.is_ended)

    def results(self, batch_id: str, *, timeout: Optional[float] = None) -> Iterator[ResultRow]:
        """Waits for the end of a batch, and iterates over its rows in the order of the addresses."""
        batch = self.wait(batch_id, timeout=timeout)
        for row in batch.results or ():
            yield row

    def list(self, *, limit: Optional[int] = None) -> Iterator[Batch]:
        """Iterates over the batches of the account without their results, the newest first. `limit` is the size of a page."""
        return self._client._pages(lambda after: calls.list_batches(limit, after))

    def cancel(self, batch_id: str) -> Batch:
        """Ends a batch. Addresses that were not asked yet are refunded, and are `unverifiable`."""
        return self._client._call(calls.cancel_batch(batch_id))


@dataclass(frozen=True)
class _Upload:
    """The parameters that both forms of an upload share."""

    source: Source
    part_bytes: int
    on_progress: Optional[Callable[[int, Optional[int]], None]]

    def report(self, offset: int) -> None:
        if self.on_progress is not None:
            self.on_progress(offset, self.source.size)


class Lists:
    """Lists: files of any length."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def upload(
        self,
        content: Content,
        *,
        name: Optional[str] = None,
        column: Optional[str] = None,
        header: Optional[bool] = None,
        size: Optional[int] = None,
        in_parts: Optional[bool] = None,
        part_bytes: int = PART_BYTES,
        idempotency_key: Optional[str] = None,
        on_progress: Optional[Callable[[int, Optional[int]], None]] = None,
    ) -> MailList:
        """Uploads a list: a path, bytes, or a file that is open for reading bytes. It is not charged before `start`.

        `column` names the column of the addresses; without it, the server finds the column. `header` says whether the first row is a
        header; without it, the server finds out. A content above `part_bytes` is sent in parts, unless `in_parts` says otherwise. After
        a broken connection, an upload in parts continues where it stopped. If that fails too, UploadInterruptedError is raised. A file
        that cannot seek needs its `size` for parts, and ends there: UploadError is raised before the last part if it is longer.
        `on_progress` gets the number of acknowledged bytes and the size. A file of the caller stays open.
        """
        source = io.run(lambda: Source(content, size))
        try:
            if in_parts and source.size is None:
                raise ValueError("an upload in parts needs the size of the content")
            if in_parts is None:
                in_parts = source.size is not None and source.size > part_bytes
            upload = _Upload(source, part_bytes, on_progress)
            # The server refuses an upload of no parts.
            if not in_parts or source.size == 0:
                return self._upload_whole(upload, name, column, header, idempotency_key)
            begun = self._client._call(calls.begin_upload(name, column, header, source.size, idempotency_key))
            return self._send_parts(begun, upload)
        finally:
            io.run(source.close)

    def resume_upload(
        self,
        list_id: str,
        content: Content,
        *,
        part_bytes: int = PART_BYTES,
        on_progress: Optional[Callable[[int, Optional[int]], None]] = None,
    ) -> MailList:
        """Continues an upload in parts, also one that another process began. `content` is the whole content, from its start."""
        begun = self.get(list_id)
        source = io.run(lambda: Source(content, begun.bytes))
        try:
            if begun.status == "uploading" and source.size != begun.bytes:
                raise UploadError("the content has another size than the upload has announced")
            return self._send_parts(begun, _Upload(source, part_bytes, on_progress))
        finally:
            io.run(source.close)

    def _upload_whole(
        self,
        upload: _Upload,
        name: Optional[str],
        column: Optional[str],
        header: Optional[bool],
        key: Optional[str],
    ) -> MailList:
        source = upload.source
        call = calls.upload_whole(name, column, header, source.size, key, repeatable=source.is_seekable)
        attempts = self._client._attempts()
        while True:
            try:
                body = io.pieces(source.read_at, min(upload.part_bytes, 1 << 20))
                uploaded = self._client._once(call, body)
            except MailprobeError as error:
                # A content that cannot seek is gone after the first byte.
                wait = attempts.next_wait(error, repeatable=call.repeatable) if source.is_seekable else None
                if wait is None:
                    raise
            else:
                upload.report(uploaded.offset or 0)
                return uploaded
            io.sleep(wait)

    def _send_parts(self, begun: MailList, upload: _Upload) -> MailList:
        """Sends parts until the server has the whole content."""
        state, offset = begun, begun.offset or 0
        attempts = self._client._attempts()
        while state.status == "uploading":
            try:
                state, is_complete = self._send_part(state.list_id, offset, upload)
                if is_complete:
                    upload.report(state.offset or 0)
                    return state
            except OffsetMismatchError as error:
                wait = attempts.next_wait(TransportError(str(error), sent=False), repeatable=True)
                if error.offset is None or wait is None:
                    raise
                # The server names the right offset, so there is nothing to ask. A mismatch without progress counts as a failure.
                offset = error.offset
                continue
            except (ApiError, TransportError) as error:
                state = self._after_failure(error, state.list_id, offset, attempts)
            if state.offset is not None and state.offset > offset:
                attempts.on_progress()
            offset = offset if state.offset is None else state.offset
            upload.report(offset)
        return state

    def _send_part(self, list_id: str, offset: int, upload: _Upload) -> Tuple[MailList, bool]:
        """Sends one part. The result is the list, and whether the server has the last part."""
        source = upload.source
        part = io.run(lambda: source.read_at(offset, upload.part_bytes))
        end = offset + len(part)
        is_last = source.size is None or end >= source.size
        call = calls.upload_part(list_id, offset, part, is_last)
        state = self._client._once(call)
        if not is_last and (state.offset is None or state.offset <= offset):
            raise UnexpectedAnswerError("the server has acknowledged a part, and its offset does not advance")
        return state, is_last

    def _after_failure(self, error: MailprobeError, list_id: str, offset: int, attempts: Attempts) -> MailList:
        """Waits, and asks the server how much it has."""
        # Nothing is sent twice, because the offset is asked first.
        wait = attempts.next_wait(error, repeatable=True)
        if wait is None:
            if not may_repeat(error, True):
                raise error
            raise UploadInterruptedError(list_id, offset) from error
        io.sleep(wait)
        try:
            return self.get(list_id)
        except MailprobeError as failure:
            if not may_repeat(failure, True):
                raise
            raise UploadInterruptedError(list_id, offset) from failure

    def get(self, list_id: str) -> MailList:
        """The present state of a list: its progress, price and cause of a stop."""
        return self._client._call(calls.get_list(list_id))

    def list(self, *, limit: Optional[int] = None) -> Iterator[MailList]:
        """Iterates over the lists of the account, the newest first. `limit` is the size of a page."""
        return self._client._pages(lambda after: calls.list_lists(limit, after))

    def start(self, list_id: str) -> MailList:
        """Starts the check of a list that is `ready`, or continues one that is `paused`. It is charged while it runs."""
        return self._client._call(calls.start_list(list_id))

    def cancel(self, list_id: str) -> MailList:
        """Ends a list. Rows that were not asked are refunded, and the results so far can be read."""
        return self._client._call(calls.cancel_list(list_id))

    def delete(self, list_id: str) -> None:
        """Deletes a list with its content and its results."""
        self._client._call(calls.delete_list(list_id))

    def wait(
        self,
        list_id: str,
        *,
        until: Literal["ready", "ended"] = "ended",
        timeout: Optional[float] = None,
        interval: Optional[float] = None,
    ) -> MailList:
        """Polls until the server has read the list (`until="ready"`), or until the list is completed or cancelled.

        Raises ListStoppedError if the list is `unfit`, or `paused` while its end is awaited. `timeout` and `interval` are as for
        batches.
        """

        def is_end(found: MailList) -> bool:
            if found.is_ended or (until == "ready" and found.status in ("ready", "running", "paused")):
                return True
            if found.status in ("unfit", "paused"):
                raise ListStoppedError(found)
            return False

        return self._client._poll(calls.get_list(list_id), Polling(f"the list {list_id}", timeout, interval), is_end)

    def results(
        self, list_id: str, *, classes: Sequence[ResultClass] = (), evidence: bool = False
    ) -> Iterator[Dict[str, Any]]:
        """Iterates over the rows of a list, each with `deliverable` and `reason`. The answer is streamed, so memory is small.

        `classes` selects classes of verdicts. With `evidence`, each row also has `rule`, `scope`, `reply_code`, `enhanced_code` and
        `checked_at`. If the connection breaks after the first row, TransportError is raised.
        """
        call = calls.list_results(list_id, "jsonl", classes, evidence)
        attempts = self._client._attempts()
        is_begun = False
        while True:
            lines = JsonLines()
            try:
                with self._client._answer(call) as answer:
                    for piece in answer.iter_bytes():
                        for row in lines.rows(piece):
                            is_begun = True
                            yield row
                    for row in lines.last_rows():
                        yield row
                    return
            except (ApiError, TransportError) as error:
                wait = None if is_begun else attempts.next_wait(error, repeatable=True)
                if wait is None:
                    raise
            io.sleep(wait)

    def download(
        self,
        list_id: str,
        target: Union[str, "os.PathLike[str]", IO[bytes]],
        *,
        format: ResultsFormat = "csv",
        classes: Sequence[ResultClass] = (),
        evidence: bool = False,
    ) -> int:
        """Writes the results of a list to a path, or to a file that is open for writing bytes. The result is the number of bytes.

        `format="xlsx"` makes a spreadsheet. `io.BytesIO()` as the target gives the content as bytes.

        A path gets the whole content or none: the content first goes to a file `NAME.part` beside it. A download to a path begins
        again after a broken connection. To a file that is open, it begins again only if nothing was written.
        """
        call = calls.list_results(list_id, format, classes, evidence)
        if not isinstance(target, (str, os.PathLike)):
            return self._save(call, target, again=False)
        path = Path(target)
        part = path.with_name(path.name + ".part")
        file = io.run(lambda: open(part, "wb"))
        try:
            count = self._save(call, file, again=True)
            io.run(file.close)
            io.run(lambda: os.replace(part, path))
        except BaseException:
            file.close()
            part.unlink(missing_ok=True)
            raise
        return count

    def _save(self, call: Call[None], file: IO[bytes], again: bool) -> int:
        attempts = self._client._attempts()
        while True:
            count = 0
            try:
                with self._client._answer(call) as answer:
                    for piece in answer.iter_bytes():
                        _write(file, piece)
                        count += len(piece)
                return count
            except (ApiError, TransportError) as error:
                wait = attempts.next_wait(error, repeatable=True) if again or count == 0 else None
                if wait is None:
                    raise
            if count > 0:
                file.seek(0)
                file.truncate()
            io.sleep(wait)


class Webhooks:
    """The endpoints of the account: URLs that get a message when a batch or list ends."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(
        self, url: str, *, events: Optional[Sequence[str]] = None, label: Optional[str] = None
    ) -> WebhookEndpoint:
        """Adds an endpoint. Only this answer has its `secret`. Without `events`, it gets all of them. It needs a live key."""
        return self._client._call(calls.create_webhook(url, events, label))

    def list(self) -> List[WebhookEndpoint]:
        """All endpoints of the account, at most ten, without their secrets."""
        return self._client._call(calls.list_webhooks())

    def get(self, webhook_id: str) -> WebhookEndpoint:
        """An endpoint without its secret."""
        return self._client._call(calls.get_webhook(webhook_id))

    def update(
        self,
        webhook_id: str,
        *,
        url: Optional[str] = None,
        events: Optional[Sequence[str]] = None,
        label: Optional[str] = None,
        enabled: Optional[bool] = None,
    ) -> WebhookEndpoint:
        """Changes the given fields of an endpoint. An empty `label` removes the label."""
        return self._client._call(calls.update_webhook(webhook_id, url, events, label, enabled))

    def delete(self, webhook_id: str) -> None:
        """Removes an endpoint. Messages that wait for it are not sent."""
        self._client._call(calls.delete_webhook(webhook_id))

    def rotate(self, webhook_id: str) -> WebhookEndpoint:
        """Makes a new secret. Only this answer has it. For 24 hours, messages are also signed with the old secret."""
        return self._client._call(calls.rotate_webhook(webhook_id))

    def test(self, webhook_id: str) -> str:
        """Sends an event `webhook.test`. The result is the id of the message."""
        return self._client._call(calls.test_webhook(webhook_id))

    def deliveries(self, webhook_id: str, *, limit: Optional[int] = None) -> Iterator[Delivery]:
        """Iterates over the messages to an endpoint, with their attempts. `limit` is the size of a page."""
        return self._client._pages(lambda after: calls.list_deliveries(webhook_id, limit, after))


def _json(body: bytes, status: int) -> Any:
    """The JSON of an answer; None for an answer without a body."""
    if status == 204:
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise UnexpectedAnswerError("the answer is not JSON", status=status) from error


def _write(file: IO[bytes], piece: bytes) -> None:
    io.run(lambda: file.write(piece))

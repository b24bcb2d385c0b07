"""Lists, by the scripted server: uploads that break, results that stream."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from pathlib import Path
from random import Random
from typing import Any, Dict, List, Optional, Tuple

import pytest
from conftest import Scripted

import mailprobe

ROWS = [("1", "deliverable@example.com"), ("2", "catch_all@example.com"), ("3", "nobody\u2028x@example.com"), ("4", "no address")]
CONTENT = ("row,email\n" + "".join(f"{row},{email}\n" for row, email in ROWS)).encode()


def large(rows: int = 2000) -> bytes:
    return b"email\n" + b"".join(b"user-%d@example.com\n" % number for number in range(rows))


class Pipe(io.RawIOBase):
    """A file that cannot seek, and returns few bytes at a time."""

    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, 700))


def run(client: Any, content: Any, **options: Any) -> str:
    """Uploads and checks a list."""
    uploaded = client.lists.upload(content, **options)
    client.lists.wait(uploaded.list_id, until="ready", interval=0.01)
    client.lists.start(uploaded.list_id)
    client.lists.wait(uploaded.list_id, interval=0.01)
    return str(uploaded.list_id)


def uploaded_content(client: Any, scripted: Scripted, list_id: str) -> bytes:
    """The content as the server has it: the results without the two columns."""
    client.lists.wait(list_id, until="ready", interval=0.01)
    client.lists.start(list_id)
    client.lists.wait(list_id, interval=0.01)
    target = io.BytesIO()
    client.lists.download(list_id, target)
    return b"".join(line.split(b",")[0] + b"\n" for line in target.getvalue().splitlines())


def test_from_upload_to_results(client: Any, scripted: Scripted, tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(CONTENT)
    uploaded = client.lists.upload(path, name="my list", column="email")
    assert (uploaded.status, uploaded.name, uploaded.offset) == ("reading", "my list", len(CONTENT))
    ready = client.lists.wait(uploaded.list_id, until="ready", interval=0.01)
    assert (ready.status, ready.rows, ready.addresses, ready.credits_required) == ("ready", 4, 2, 2)
    assert ready.expires_at is not None and ready.expires_at.microsecond == 123456
    assert client.lists.start(uploaded.list_id).status == "running"
    assert client.lists.start(uploaded.list_id).status == "running"
    done = client.lists.wait(uploaded.list_id, interval=0.01)
    assert done.is_ended and done.counts["mailbox_exists"] == 1
    rows = list(client.lists.results(uploaded.list_id))
    assert [(row["row"], row["email"]) for row in rows] == ROWS
    assert [row["reason"] for row in rows] == ["mailbox_exists", "catch_all", "invalid_syntax", "invalid_syntax"]
    client.lists.delete(uploaded.list_id)
    with pytest.raises(mailprobe.NotFoundError):
        client.lists.get(uploaded.list_id)


def test_classes(client: Any) -> None:
    list_id = run(client, CONTENT)
    rows = client.lists.results(list_id, classes=["deliverable", "unknown"])
    assert [row["row"] for row in rows] == ["1", "2"]
    with pytest.raises(TypeError):
        list(client.lists.results(list_id, classes="deliverable"))


def test_download_to_a_path(client: Any, scripted: Scripted, tmp_path: Path) -> None:
    list_id = run(client, CONTENT)
    target = tmp_path / "out.csv"
    scripted.fault("GET", "/results", truncate=True)
    count = client.lists.download(list_id, target)
    assert count == target.stat().st_size
    assert target.read_text().splitlines()[:2] == ["row,email,deliverable,reason", "1,deliverable@example.com,true,mailbox_exists"]
    assert os.listdir(tmp_path) == ["out.csv"]


def sheet(content: bytes) -> bytes:
    """The rows of the spreadsheet that the scripted server makes. Its checksum shows that no byte has changed."""
    return zipfile.ZipFile(io.BytesIO(content)).read("xl/worksheets/sheet1.xml")


def test_a_spreadsheet(client: Any, scripted: Scripted, tmp_path: Path) -> None:
    list_id = run(client, CONTENT)
    path, file, table = tmp_path / "out.xlsx", io.BytesIO(), io.BytesIO()
    scripted.fault("GET", "/results", truncate=True)
    assert client.lists.download(list_id, path, format="xlsx", classes=["deliverable"]) == path.stat().st_size
    assert scripted.journal()[-1]["target"].endswith("/results?format=xlsx&class=deliverable")
    assert sheet(path.read_bytes()).splitlines() == [b"row,email,deliverable,reason", b"1,deliverable@example.com,true,mailbox_exists"]
    assert client.lists.download(list_id, file, format="xlsx") == len(file.getvalue())
    client.lists.download(list_id, table)
    assert sheet(file.getvalue()) == table.getvalue()


def test_a_failed_download_leaves_no_file(client: Any, scripted: Scripted, tmp_path: Path) -> None:
    list_id = run(client, CONTENT)
    scripted.fault("GET", "/results", truncate=True, times=9)
    with pytest.raises(mailprobe.TransportError):
        client.lists.download(list_id, tmp_path / "out.csv")
    assert os.listdir(tmp_path) == []


def test_an_open_file_gets_no_second_start(client: Any, scripted: Scripted) -> None:
    list_id = run(client, CONTENT)
    scripted.fault("GET", "/results", status=503, body={})
    scripted.fault("GET", "/results", truncate=True)
    target = io.BytesIO()
    with pytest.raises(mailprobe.TransportError):
        client.lists.download(list_id, target)
    assert 0 < len(target.getvalue()) < len(CONTENT)


def test_truncated_results_are_an_error_after_the_first_row(client: Any, scripted: Scripted) -> None:
    list_id = run(client, CONTENT)
    scripted.fault("GET", "/results", truncate=True)
    rows = client.lists.results(list_id)
    assert next(rows)["row"] == "1"
    with pytest.raises(mailprobe.TransportError):
        list(rows)
    scripted.fault("GET", "/results", status=503, body={})
    assert len(list(client.lists.results(list_id))) == 4


@pytest.mark.parametrize("body", ["{\n", "[1]\n", '{"a": 1}\nx'])
def test_results_that_are_not_rows(client: Any, scripted: Scripted, body: str) -> None:
    list_id = run(client, CONTENT)
    scripted.fault("GET", "/results", status=200, body=body)
    with pytest.raises(mailprobe.UnexpectedAnswerError):
        list(client.lists.results(list_id))


def as_path(content: bytes, folder: Path) -> Any:
    (folder / "large.csv").write_bytes(content)
    return folder / "large.csv"


def as_file_from_its_middle(content: bytes, folder: Path) -> Any:
    file = io.BytesIO(b"skipped" + content)
    file.seek(7)
    return file


KINDS = [as_path, as_file_from_its_middle, lambda content, _: content, lambda content, _: Pipe(content)]


@pytest.mark.parametrize("kind", KINDS, ids=["path", "file", "bytes", "pipe"])
@pytest.mark.parametrize("fault", [{}, {"reset_after": 3000}, {"lose": True}, {"status": 503, "body": {}}, {"reset_after": 0}])
def test_upload_in_parts(client: Any, scripted: Scripted, tmp_path: Path, kind: Any, fault: Any) -> None:
    content = large()
    progress: List[Tuple[int, Optional[int]]] = []
    if fault:
        scripted.fault("PATCH", "/v1/lists", **fault, times=3)
    uploaded = client.lists.upload(
        kind(content, tmp_path), size=len(content), in_parts=True, part_bytes=10_000,
        on_progress=lambda *seen: progress.append(seen),
    )
    assert uploaded.status == "reading" or fault.get("lose")
    assert uploaded.offset == len(content)
    offsets = [offset for offset, _ in progress]
    assert offsets == sorted(offsets) and offsets[-1] == len(content)
    assert progress[-1][1] == len(content)
    assert uploaded_content(client, scripted, uploaded.list_id) == content
    (begun,) = [request for request in scripted.journal() if request["target"] == "/v1/lists"]
    assert "idempotency-key" in begun["headers"]


@pytest.mark.parametrize("seed", range(15))
def test_property_random_faults_change_no_byte(client: Any, scripted: Scripted, seed: int) -> None:
    """However an upload breaks, the server gets the content once, in one list."""
    random = Random(seed)
    content = large(random.randrange(1, 3000))
    faults: List[Dict[str, Any]] = [{"reset_after": random.randrange(9000)}, {"lose": True}, {"status": 503, "body": {}}, {"truncate": True}]
    for _ in range(random.randrange(12)):
        scripted.fault(random.choice(["PATCH", "PATCH", "GET"]), "/v1/lists/", times=random.randrange(1, 3), **random.choice(faults))
    options = {"part_bytes": random.randrange(1000, 20_000)}
    try:
        uploaded = client.lists.upload(content, in_parts=True, **options)
    except mailprobe.UploadInterruptedError as interrupted:
        scripted.control("end-faults", {})
        uploaded = client.lists.resume_upload(interrupted.list_id, content, **options)
    scripted.control("end-faults", {})
    assert uploaded_content(client, scripted, uploaded.list_id) == content
    assert len(list(client.lists.list())) == 1


def test_the_answer_to_the_last_part_is_lost(client: Any, scripted: Scripted) -> None:
    scripted.fault("PATCH", "/v1/lists", lose=True)
    uploaded = client.lists.upload(CONTENT, in_parts=True)
    assert uploaded.offset == len(CONTENT)
    assert [request["method"] for request in scripted.journal()] == ["POST", "PATCH", "GET"]


def test_small_contents_are_sent_whole(client: Any, scripted: Scripted) -> None:
    client.lists.upload(CONTENT)
    (request,) = scripted.journal()
    assert (request["method"], request["bytes"], request["headers"]["content-length"]) == ("POST", len(CONTENT), str(len(CONTENT)))


@pytest.mark.parametrize("fault", [{"lose": True}, {"reset_after": 10}, {"status": 429, "body": {}}])
def test_a_whole_upload_is_repeated_with_its_key(client: Any, scripted: Scripted, fault: Any) -> None:
    scripted.fault("POST", "/v1/lists", **fault)
    client.lists.upload(CONTENT)
    first, second = scripted.journal()
    assert first["headers"]["idempotency-key"] == second["headers"]["idempotency-key"]
    assert len(list(client.lists.list())) == 1


def test_a_pipe_is_not_sent_twice(client: Any, scripted: Scripted) -> None:
    scripted.fault("POST", "/v1/lists", status=503, body={})
    with pytest.raises(mailprobe.UnavailableError):
        client.lists.upload(Pipe(CONTENT), in_parts=False)
    assert client.lists.upload(Pipe(CONTENT), in_parts=False).offset == len(CONTENT)


def test_an_upload_continues_in_another_process(client: Any, scripted: Scripted) -> None:
    content = large()
    scripted.fault("PATCH", "/v1/lists", reset_after=100, times=1)
    scripted.fault("PATCH", "/v1/lists", reset_after=0, times=99)
    with pytest.raises(mailprobe.UploadInterruptedError) as caught:
        client.lists.upload(content, in_parts=True, part_bytes=10_000)
    assert isinstance(caught.value.__cause__, mailprobe.TransportError)
    assert caught.value.offset == 100
    scripted.control("end-faults", {})
    done = client.lists.resume_upload(caught.value.list_id, Pipe(content), part_bytes=10_000)
    assert done.offset == len(content)
    assert uploaded_content(client, scripted, done.list_id) == content
    assert client.lists.resume_upload(done.list_id, content).list_id == done.list_id


def test_a_mismatch_is_followed(client: Any, scripted: Scripted) -> None:
    content = large()
    body = {"error": "offset_mismatch", "message": "", "offset": 0}
    scripted.fault("PATCH", "/v1/lists", status=409, body=body, times=2)
    uploaded = client.lists.upload(content, in_parts=True, part_bytes=10_000)
    assert uploaded_content(client, scripted, uploaded.list_id) == content
    scripted.fault("PATCH", "/v1/lists", status=409, body=body, times=99)
    with pytest.raises(mailprobe.OffsetMismatchError):
        client.lists.upload(content, in_parts=True, part_bytes=10_000)


def test_a_server_that_never_advances(client: Any, scripted: Scripted) -> None:
    scripted.fault("PATCH", "/v1/lists", status=200, body={"list_id": "x", "status": "uploading", "offset": 0})
    with pytest.raises(mailprobe.UnexpectedAnswerError):
        client.lists.upload(large(), in_parts=True, part_bytes=10_000)


def test_a_file_that_becomes_shorter(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(large())
    with pytest.raises(mailprobe.UploadError):
        client.lists.upload(path, in_parts=True, part_bytes=10_000, on_progress=lambda *_: os.truncate(path, 100))


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("part_bytes", [len(CONTENT) - 1, len(CONTENT) // 2, 1 << 20])
def test_a_pipe_that_is_longer_than_its_size(client: Any, in_parts: bool, part_bytes: int) -> None:
    """The server gets no list that looks complete without its rest."""
    with pytest.raises(mailprobe.UploadError, match="longer"):
        client.lists.upload(Pipe(CONTENT), size=len(CONTENT) - 1, in_parts=in_parts, part_bytes=part_bytes)
    assert {found.status for found in client.lists.list()} == ({"uploading"} if in_parts else set())


def test_a_pipe_that_is_longer_than_the_rest_of_an_upload(client: Any, scripted: Scripted) -> None:
    scripted.fault("PATCH", "/v1/lists", reset_after=0, times=99)
    with pytest.raises(mailprobe.UploadInterruptedError) as caught:
        client.lists.upload(CONTENT, in_parts=True)
    scripted.control("end-faults", {})
    with pytest.raises(mailprobe.UploadError, match="longer"):
        client.lists.resume_upload(caught.value.list_id, Pipe(CONTENT + b"5,x@example.com\n"))
    assert client.lists.resume_upload(caught.value.list_id, Pipe(CONTENT)).offset == len(CONTENT)


def test_files_of_the_caller_stay_open(client: Any, scripted: Scripted) -> None:
    for file in (io.BytesIO(CONTENT), Pipe(CONTENT)):
        client.lists.upload(file, size=len(CONTENT), in_parts=True)
        assert not file.closed
        scripted.fault("POST", "/v1/lists", status=401, body={"error": "invalid_api_key"})
        with pytest.raises(mailprobe.InvalidApiKeyError):
            client.lists.upload(file, size=len(CONTENT), in_parts=True)
        assert not file.closed


def test_own_files_are_closed(client: Any, scripted: Scripted, tmp_path: Path) -> None:
    path = as_path(CONTENT, tmp_path)
    open_files = Path("/proc/self/fd")
    scripted.fault("POST", "/v1/lists", status=401, body={"error": "invalid_api_key"})
    for _ in range(2):
        try:
            client.lists.upload(path)
        except mailprobe.InvalidApiKeyError:
            pass
        assert str(path) not in [os.path.realpath(file) for file in open_files.iterdir()]


def test_a_file_for_text(client: Any) -> None:
    with pytest.raises(TypeError):
        client.lists.upload(io.StringIO("a@example.com\n"), in_parts=True)


def test_parts_need_the_size(client: Any, scripted: Scripted) -> None:
    with pytest.raises(ValueError):
        client.lists.upload(Pipe(CONTENT), in_parts=True)
    client.lists.upload(Pipe(CONTENT), part_bytes=10)
    with pytest.raises(mailprobe.UploadError):
        client.lists.upload(Pipe(CONTENT), size=len(CONTENT) + 1, in_parts=True)
    uploading = next(found for found in client.lists.list() if found.status == "uploading")
    with pytest.raises(mailprobe.UploadError):
        client.lists.resume_upload(uploading.list_id, CONTENT)


def test_results_before_the_end(client: Any) -> None:
    uploaded = client.lists.upload(CONTENT)
    with pytest.raises(mailprobe.InvalidStateError):
        list(client.lists.results(uploaded.list_id))


@pytest.mark.parametrize("in_parts", [False, True])
def test_an_empty_list_is_unfit(client: Any, in_parts: bool) -> None:
    uploaded = client.lists.upload(b"", in_parts=in_parts)
    with pytest.raises(mailprobe.ListStoppedError) as caught:
        client.lists.wait(uploaded.list_id, until="ready", interval=0.01)
    assert caught.value.list.status == "unfit"
    assert "no row" in str(caught.value)


def test_a_paused_list_stops_the_wait(client: Any, scripted: Scripted) -> None:
    scripted.fault("GET", "/v1/lists/", status=200, body={"list_id": "x", "status": "paused", "problem": "no credits"})
    with pytest.raises(mailprobe.ListStoppedError, match="no credits"):
        client.lists.wait("x")


def test_cancel_and_list(client: Any) -> None:
    ids = [client.lists.upload(CONTENT, name=str(number)).list_id for number in range(5)]
    assert [found.list_id for found in client.lists.list()] == ids[::-1]
    client.lists.wait(ids[0], until="ready", interval=0.01)
    client.lists.start(ids[0])
    assert client.lists.cancel(ids[0]).status == "cancelled"
    assert client.lists.wait(ids[0]).is_ended


def test_one_client_in_several_threads(scripted: Scripted) -> None:
    with mailprobe.Client(scripted.url, "key") as client:
        found: List[str] = []
        threads = [threading.Thread(target=lambda: found.append(client.verify("role@example.com").reason)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == ["role_account"] * 8

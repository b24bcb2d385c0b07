//! `POST /v1/lists` and `PATCH /v1/lists/{list_id}`: the upload of a list, in one request or in parts.

use super::{find, flag, invalid_state, no_such_list, reply};
use crate::call::Call;
use crate::http::upload::Upload;
use api::request::{LIST_COLUMN_CHARS_MAX, LIST_NAME_CHARS_MAX};
use api::{ErrorCode, Issue, IssueType, ListBody};
use checks::auth::Caller;
use checks::idempotency::{self, Claim};
use http_core::Reply;
use http_core::{Query, Refusal};
use list_work::upload::{BodyError, Incoming, PartWriter, UploadError, Whole};
use std::sync::Arc;
use store::id::random_bits;
use store::{Idempotency, KeyEndpoint, List, ListId, ListMade, ListState, StoreError, UploadEnd, clock};

/// `POST /v1/lists`: creates a list, with its content or for an upload in parts.
pub async fn create(mut call: Call) -> Result<Reply, Refusal> {
    let caller = call.caller()?;
    let key = idempotency::key(&call.idempotency_key).map_err(|issue| Refusal::invalid(vec![issue]))?;
    let announcement = call.content.is_none().then_some(&*call.body);
    let (wanted, fingerprint) = ListRequest::read(&call.query, announcement)?;
    let claim = match &key {
        Some(key) => Some(claim(&call, caller, key)?),
        None => None,
    };
    let key = key.map(|key| Idempotency { key, body: fingerprint });
    let most = call.content.as_ref().and_then(|content| content.most());
    let bytes_max = call.worker.shared.lists.bytes_max;
    // The size of a content without a stated length is not known.
    let bytes = wanted.bytes.or(most).unwrap_or(bytes_max);
    if bytes > bytes_max {
        return Err(too_large(bytes_max));
    }
    let now = clock::now();
    let bits = random_bits().map_err(|error| Refusal::unready().inside(error))?;
    let list = List {
        column: wanted.column.trim().to_owned(),
        header: wanted.header,
        bytes,
        mode: caller.mode,
        is_resumable: call.content.is_none(),
        ..List::new(ListId::new(now, bits), caller.account, now, wanted.name)
    };
    let store = Arc::clone(&call.worker.checks.store);
    let room = call.worker.shared.lists.room();
    match store.create_list(&list, room, key.clone(), now).await? {
        ListMade::Made => {}
        ListMade::Replayed(first) => return replay(&call, first).await,
        refused => return Err(not_created(refused)),
    }
    let list = match call.content.take() {
        None => list,
        Some(mut content) => match take_whole(&call, &list, content.as_mut(), key).await? {
            UploadEnd::Replayed(first) => return replay(&call, first).await,
            _ => store.list(list.account, list.id, clock::now()).await?.ok_or_else(no_such_list)?,
        },
    };
    drop(claim);
    reply(&call, 201, list).await
}

/// What a request wants to create.
struct ListRequest {
    name: String,
    column: String,
    header: Option<bool>,
    /// The size of a list that is uploaded in parts.
    bytes: Option<u64>,
}

impl ListRequest {
    /// Reads the query, and the body of a request for an upload in parts. The fingerprint covers both.
    fn read(query: &str, announcement: Option<&[u8]>) -> Result<(ListRequest, [u8; 32]), Refusal> {
        let query = Query::parse(query).map_err(Refusal::invalid)?;
        let mut issues = Vec::new();
        let mut read = |name: &'static str, chars_max: usize| match query.get(name) {
            Ok(Some(text)) if text.chars().count() > chars_max => {
                let msg = format!("at most {chars_max} characters");
                let issue = Issue::new(&["query", name], IssueType::StringTooLong, msg);
                issues.push(issue.ctx("max_length", chars_max));
                String::new()
            }
            Ok(text) => text.unwrap_or_default().to_owned(),
            Err(mut issue) => {
                if name == "column" {
                    issue.msg =
                        "a list checks one column: name one, and upload the file again for the other".into();
                }
                issues.push(issue);
                String::new()
            }
        };
        let (name, column) = (read("name", LIST_NAME_CHARS_MAX), read("column", LIST_COLUMN_CHARS_MAX));
        let header = flag(&query, "header", &mut issues);
        let body = announcement.map(ListBody::parse).transpose().unwrap_or_else(|found| {
            issues.extend(found);
            None
        });
        if !issues.is_empty() {
            return Err(Refusal::invalid(issues));
        }
        // Earlier versions have stored the fingerprints of requests without this field.
        let request = match header {
            None => serde_json::json!({ "name": &name, "column": &column }),
            header => serde_json::json!({ "name": &name, "column": &column, "header": header }),
        };
        let request = request.to_string();
        let fingerprint = match announcement {
            None => fingerprint(&[b"{\"content\":", request.as_bytes(), b"}"].concat())?,
            // The same body must not be that of a batch.
            Some(body) => {
                fingerprint(&[b"{\"parts\":", body, b",\"query\":", request.as_bytes(), b"}"].concat())?
            }
        };
        let wanted = match body {
            None => ListRequest { name, column, header, bytes: None },
            Some(body) => ListRequest {
                name: body.name.unwrap_or(name),
                column: body.column.unwrap_or(column),
                header: body.header.or(header),
                bytes: Some(body.bytes),
            },
        };
        Ok((ListRequest { name: plain(&wanted.name), ..wanted }, fingerprint))
    }
}

fn fingerprint(request: &[u8]) -> Result<[u8; 32], Refusal> {
    idempotency::fingerprint(request)
        .map_err(|_| Refusal::defect().inside("a request that was read is no JSON any longer"))
}

/// A name without control characters.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}

fn claim(call: &Call, caller: Caller, key: &str) -> Result<Claim, Refusal> {
    let claim = call.worker.shared.in_progress.claim(caller.account, caller.mode, KeyEndpoint::Lists, key);
    claim.ok_or_else(super::super::batch::in_progress)
}

/// The answer to a repeated request: the list as it is now.
async fn replay(call: &Call, id: ListId) -> Result<Reply, Refusal> {
    let caller = call.caller()?;
    let list = call.worker.checks.store.list(caller.account, id, clock::now()).await?;
    let gone = || {
        let message = "The list that this Idempotency-Key created was deleted; use a new key.";
        Refusal::new(ErrorCode::NotFound, message)
    };
    Ok(reply(call, 201, list.ok_or_else(gone)?).await?.header("idempotent-replayed", "true"))
}

/// Stores the content of a list that is one request. After an error the list is deleted.
async fn take_whole(
    call: &Call,
    list: &List,
    content: &mut Upload,
    key: Option<Idempotency>,
) -> Result<UploadEnd, Refusal> {
    let store = Arc::clone(&call.worker.checks.store);
    let bytes_max = call.worker.shared.lists.bytes_max;
    let whole = Whole::new(Arc::clone(&store), list);
    let room = call.worker.shared.lists.room();
    let by = call.caller()?.authority();
    let mut writer = PartWriter::open(Arc::clone(&store), list.clone(), bytes_max, room, by)
        .await
        .map_err(|error| not_stored(error, bytes_max))?;
    if take(&mut writer, content, bytes_max).await? == 0 {
        let issue =
            Issue::new(&["body"], IssueType::Missing, "the body is the content of the list, and it is empty");
        return Err(Refusal::invalid(vec![issue]));
    }
    content.refuse_joined_rows()?;
    // From here on the list stays, even if the caller hangs up.
    let ended = store.end_upload(list, key, by, clock::now());
    whole.end();
    let ended = match ended.await {
        Ok(ended) => ended,
        Err(error) => {
            if !matches!(error, StoreError::Unknown(_)) {
                // If this fails too, the list goes a day after its last byte.
                drop(call.worker.shared.lists.actions.delete(list.account, list.id).await);
            }
            return Err(error.into());
        }
    };
    match ended {
        UploadEnd::Done => call.worker.shared.lists.actions.wake(),
        UploadEnd::Replayed(_) | UploadEnd::KeyReused => {
            call.worker.shared.lists.actions.delete(list.account, list.id).await?;
            if ended == UploadEnd::KeyReused {
                return Err(not_created(ListMade::KeyReused));
            }
        }
        UploadEnd::Gone => return Err(gone()),
    }
    Ok(ended)
}

/// Stores what arrives. What has arrived before an error is stored too, so that an upload in parts can continue there.
async fn take(writer: &mut PartWriter, content: &mut impl Incoming, bytes_max: u64) -> Result<u64, Refusal> {
    let refuse = |error| not_stored(error, bytes_max);
    loop {
        match content.next().await {
            Ok(Some(piece)) => writer.push(&piece).await.map_err(refuse)?,
            Ok(None) => return writer.flush().await.map_err(refuse),
            Err(error) => {
                writer.flush().await.map_err(refuse)?;
                return Err(refuse(error.into()));
            }
        }
    }
}

/// `PATCH /v1/lists/{list_id}`: the next bytes of a list.
pub async fn append(mut call: Call) -> Result<Reply, Refusal> {
    let (from, completes) = part_head(&call)?;
    let list = find(&call).await?;
    let mut content = call.content.take().ok_or_else(|| Refusal::defect().inside("there is no content"))?;
    if list.state != ListState::Uploading || !list.is_resumable {
        return Err(invalid_state("The list is not being uploaded in parts; read its `status`."));
    }
    if from != list.offset {
        return Err(other_offset(list.offset));
    }
    let announced = list.bytes;
    if content.most().is_some_and(|most| most > announced - from.min(announced)) {
        return Err(longer_than_announced(announced));
    }
    let store = Arc::clone(&call.worker.checks.store);
    let refuse = |error| match error {
        UploadError::TooLong => longer_than_announced(announced),
        error => not_stored(error, announced),
    };
    let room = call.worker.shared.lists.room();
    let by = call.caller()?.authority();
    let mut writer =
        PartWriter::open(Arc::clone(&store), list.clone(), announced, room, by).await.map_err(refuse)?;
    let offset = take(&mut writer, content.as_mut(), announced).await?;
    if completes {
        if offset != announced {
            let msg = format!("the list has {offset} of the {announced} bytes that were announced");
            return Err(Refusal::invalid(vec![Issue::new(&COMPLETE, IssueType::Conflict, msg)]));
        }
        match store.end_upload(&list, None, by, clock::now()).await? {
            UploadEnd::Done => call.worker.shared.lists.actions.wake(),
            _ => return Err(gone()),
        }
    }
    let list = store.list(list.account, list.id, clock::now()).await?.ok_or_else(no_such_list)?;
    reply(&call, 200, list).await
}

const OFFSET: [&str; 2] = ["header", "upload-offset"];
const COMPLETE: [&str; 2] = ["header", "upload-complete"];

/// Reads `Upload-Offset`, and whether `Upload-Complete` is true (a boolean of RFC 9651).
fn part_head(call: &Call) -> Result<(u64, bool), Refusal> {
    let mut issues = Vec::new();
    let offset = match call.upload_head.offset.as_slice() {
        [] => Err(Issue::new(&OFFSET, IssueType::Missing, "this header is required")),
        [value] => {
            let text =
                std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            let issue = || Issue::new(&OFFSET, IssueType::IntType, "must be a number of bytes");
            text.and_then(|text| text.parse().ok()).ok_or_else(issue)
        }
        _ => Err(Issue::new(&OFFSET, IssueType::Duplicate, "given more than once")),
    };
    let completes = match call.upload_head.complete.as_slice() {
        [] => Ok(false),
        [value] if value == b"?1" => Ok(true),
        [value] if value == b"?0" => Ok(false),
        [_] => Err(Issue::new(&COMPLETE, IssueType::Enum, "must be ?1 or ?0").ctx("expected", "?1, ?0")),
        _ => Err(Issue::new(&COMPLETE, IssueType::Duplicate, "given more than once")),
    };
    let offset = offset.map_err(|issue| issues.push(issue));
    let completes = completes.map_err(|issue| issues.push(issue));
    match (offset, completes) {
        (Ok(offset), Ok(completes)) => Ok((offset, completes)),
        _ => Err(Refusal::invalid(issues)),
    }
}

fn not_created(made: ListMade) -> Refusal {
    match made {
        ListMade::TooMany => invalid_state(format!(
            "The account has {} lists, as many as it may have; delete one that you no longer need.",
            store::LISTS_MAX
        )),
        ListMade::AccountFull => {
            let message = "The lists of the account have all bytes of its share; delete one that you no longer need, or compress the content.";
            Refusal::new(ErrorCode::RequestTooLarge, message)
        }
        ListMade::StoreFull => store_full(),
        ListMade::KeyReused => {
            let message = "This Idempotency-Key came before with another request; use a new key.";
            Refusal::new(ErrorCode::IdempotencyKeyReused, message)
        }
        ListMade::NoAccount => Refusal::unauthorized(ErrorCode::ApiKeyRevoked),
        ListMade::Made | ListMade::Replayed(_) => Refusal::defect().inside("a list was created and refused"),
    }
}

fn not_stored(error: UploadError, bytes_max: u64) -> Refusal {
    match error {
        UploadError::Body(BodyError::Broken) => Refusal::new(
            ErrorCode::InvalidRequest,
            "The content broke off. If the list is uploaded in parts, read its `offset` and continue there.",
        ),
        UploadError::Body(BodyError::TooSlow) => {
            Refusal::new(ErrorCode::RequestTimeout, "The content took too long to arrive.")
        }
        UploadError::TooLong => too_large(bytes_max),
        UploadError::Gone => gone(),
        UploadError::Offset(offset) => other_offset(offset),
        UploadError::StoreFull => store_full(),
        UploadError::Store(error) => error.into(),
    }
}

fn store_full() -> Refusal {
    let message = "There is no space for another list now; retry later.";
    Refusal::new(ErrorCode::TemporarilyUnavailable, message).header("retry-after", "60")
}

fn too_large(bytes_max: u64) -> Refusal {
    let message = format!("A list has at most {bytes_max} bytes. Split it, or compress it with gzip.");
    Refusal::new(ErrorCode::RequestTooLarge, message)
}

fn longer_than_announced(announced: u64) -> Refusal {
    let message = format!("The list was announced with {announced} bytes, and this is more.");
    Refusal::new(ErrorCode::RequestTooLarge, message)
}

fn other_offset(offset: u64) -> Refusal {
    let message = format!("The list has {offset} bytes; continue there.");
    let mut refusal = Refusal::new(ErrorCode::OffsetMismatch, message);
    refusal.body.offset = Some(offset);
    refusal
}

fn gone() -> Refusal {
    invalid_state("The list was deleted or cancelled during its upload.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_says_when_an_upload_is_removed() {
        let said = format!(
            "An upload is removed {} hours after its last byte, or after {} minutes if it has never got any.",
            store::UPLOAD_KEEP_MS / 3_600_000,
            store::UPLOAD_BEGIN_MS / 60_000
        );
        assert!(api::openapi::pretty("/").unwrap().contains(&said));
    }

    #[test]
    fn equal_requests_have_equal_fingerprints() {
        let read = |query: &str, body: Option<&str>| {
            ListRequest::read(query, body.map(str::as_bytes)).ok().unwrap().1
        };
        let (query, body) = (|text: &str| read(text, None), |text: &str| read("", Some(text)));
        assert_eq!(query("name=a%62&column="), query("name=ab"));
        assert_ne!(query("name=ab"), query("name=ab&column=2"));
        assert_ne!(query("name=ab"), query("name=ab&header=false"));
        assert_eq!(body(r#"{"bytes":1,"name":"x"}"#), body(r#"{ "name": "x", "bytes": 1 }"#));
        assert_ne!(body(r#"{"bytes":1}"#), body(r#"{"bytes":2}"#));
        assert_ne!(body(r#"{"bytes":1}"#), read("name=x", Some(r#"{"bytes":1}"#)));
        assert_ne!(body(r#"{"bytes":1}"#), idempotency::fingerprint(br#"{"bytes":1}"#).unwrap());
    }

    #[test]
    fn fields_of_the_body_replace_the_query() {
        let read = |query: &str, body: &str| {
            let (wanted, _) =
                ListRequest::read(query, Some(body.as_bytes())).map_err(|it| it.body.detail.len())?;
            Ok((wanted.name, wanted.column))
        };
        let both = |name: &str, column: &str| Ok((name.to_owned(), column.to_owned()));
        assert_eq!(read("name=a&column=2", r#"{"bytes":1}"#), both("a", "2"));
        assert_eq!(read("name=a&column=2", r#"{"bytes":1,"name":"b\n","column":null}"#), both("b", "2"));
        let long = "x".repeat(LIST_NAME_CHARS_MAX + 1);
        assert_eq!(read(&format!("name={long}"), r#"{"bytes":1,"name":"b"}"#), Err(1));
        assert_eq!(read(&format!("name={long}"), r#"{"bytes":0,"name":"b"}"#), Err(2));
        let header = |query: &str, body: Option<&str>| {
            ListRequest::read(query, body.map(str::as_bytes)).ok().map(|(wanted, _)| wanted.header)
        };
        assert_eq!(header("header=true", None), Some(Some(true)));
        assert_eq!(header("header=true", Some(r#"{"bytes":1,"header":false}"#)), Some(Some(false)));
        assert_eq!(header("", None), Some(None));
        assert_eq!(header("header=1", None), None);
        let refused = ListRequest::read("column=a&column=b", None).err().unwrap();
        assert!(
            refused.body.detail[0].msg.contains("upload the file again"),
            "{}",
            refused.body.detail[0].msg
        );
    }
}

//! `POST /lists`: receives a file as a part of a form (multipart/form-data, RFC 7578). The content goes to the store in
//! parts while it arrives, so the use of memory does not depend on its length.
//!
//! The token comes before the file, so nothing of a forged upload is stored.
//!
//! The reader of multipart bodies is ours: multer 3 takes only streams that are `Send`, which bodies of these threads are not, and
//! does not bound the head of a part.

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

use super::pages;
use crate::access::Access;
use crate::form::{Form, TOKEN};
use crate::problem::Problem;
use crate::redirect;
use crate::visit::Visit;
use crate::{guard, page};
use http_core::Reply;
use list_work::NAME_CHARS_MAX;
use list_work::upload::{BodyError, Incoming, PartWriter, UploadError, Whole};
use std::sync::Arc;
use store::clock;
use store::id::random_bits;
use store::{Authority, List, ListId, ListMade, StoreError, UploadEnd};

/// Longest field besides the file, in bytes.
const FIELD_BYTES_MAX: usize = 4 * 1024;
/// Longest head of a part, in bytes.
const HEAD_BYTES_MAX: usize = 4 * 1024;
/// The end of the head of a part.
const HEAD_END: &[u8] = b"\r\n\r\n";
/// Longest boundary, in bytes (RFC 2046 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;
/// Most fields besides the file.
const FIELDS_MAX: usize = 8;
/// Most bytes of a body besides the file.
const BESIDE_BYTES_MAX: u64 = (FIELDS_MAX as u64 + 1) * (FIELD_BYTES_MAX + HEAD_BYTES_MAX) as u64;

/// `POST /lists`: receives a file and creates a list of it.
pub async fn submit(mut visit: Visit) -> Result<Reply, Problem> {
    let account = visit.signed_in()?.account;
    let terms = visit.checks.store.terms(account).ok_or_else(Problem::not_found)?;
    if !terms.batches_allowed {
        return Err(Problem::new(403, "Lists are not included in this account's plan."));
    }
    let (Some(incoming), Some(kind)) = (visit.incoming.take(), visit.head.content_type.clone()) else {
        return Err(malformed());
    };
    let bytes_max = visit.dashboard.lists.bytes_max;
    let most = incoming.most().unwrap_or(u64::MAX).min(bytes_max);
    if incoming.most().is_some_and(|most| most > bytes_max + BESIDE_BYTES_MAX) {
        return Err(too_long(bytes_max));
    }
    let mut body = Multipart::new(incoming, &kind)?;
    let (token, column, header, file) = fields(&mut body).await?;
    let form = Form::parse(format!("{TOKEN}={token}").as_bytes()).map_err(|_| malformed())?;
    guard::token(&visit.head, Access::SignedIn, visit.signed_in.as_ref(), &form)?;
    if file.is_empty() {
        let page = pages::render(&visit, Some("Choose a file first.")).await?;
        return Ok(page::with_status(page, 400));
    }
    let now = clock::now();
    let bits = random_bits().map_err(|error| Problem::unready().inside(error))?;
    let name = file.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
    let list = List {
        column: column.trim().to_owned(),
        header,
        bytes: most,
        ..List::new(ListId::new(now, bits), account, now, name)
    };
    let store = Arc::clone(&visit.checks.store);
    let room = visit.dashboard.lists.room();
    if let Some((status, why)) = refused(store.create_list(&list, room, None, now).await?)? {
        return Ok(page::with_status(pages::render(&visit, Some(why)).await?, status));
    }
    let whole = Whole::new(Arc::clone(&store), &list);
    let by = Authority::session(visit.signed_in()?.session);
    if let Err(problem) = take(&visit, &mut body, &list, by).await {
        whole.end();
        visit.dashboard.lists.actions.delete(account, list.id).await?;
        return Err(problem);
    }
    whole.end();
    match store.end_upload(&list, None, by, clock::now()).await {
        Ok(UploadEnd::Done) => {}
        Ok(_) => return Err(gone()),
        Err(StoreError::Outdated) => {
            visit.dashboard.lists.actions.delete(account, list.id).await?;
            return Err(Problem::outdated());
        }
        Err(error) => return Err(error.into()),
    }
    visit.dashboard.lists.actions.wake();
    Ok(redirect::see_other(format!("/lists/{}", list.id)))
}

/// The status and message for a list that is refused.
///
/// # Errors
///
/// The account was deleted during the request: its pages are not shown any more.
fn refused(made: ListMade) -> Result<Option<(u16, &'static str)>, Problem> {
    Ok(match made {
        // The form has no idempotency key.
        ListMade::Made | ListMade::Replayed(_) | ListMade::KeyReused => None,
        ListMade::NoAccount => return Err(Problem::outdated()),
        ListMade::TooMany => {
            Some((409, "The account has reached its limit of lists. Delete a list that you no longer need."))
        }
        ListMade::AccountFull => Some((
            413,
            "The account's lists have all bytes of its share. Delete a list that you no longer need, or compress the file.",
        )),
        ListMade::StoreFull => Some((503, STORE_FULL)),
    })
}

const STORE_FULL: &str = "There is no space for another list now. Try again later, or upload a smaller list.";

/// Reads the token, the column, whether there is a header, and the name of the file. The content of the file comes next.
async fn fields(body: &mut Multipart) -> Result<(String, String, Option<bool>, String), Problem> {
    let (mut token, mut column, mut header) = (String::new(), String::new(), None);
    for _ in 0..FIELDS_MAX {
        let Some(part) = body.part().await? else { return Err(malformed()) };
        match part.name.as_str() {
            TOKEN => token = body.field().await?,
            "column" => column = body.field().await?,
            "header" => {
                header = match body.field().await?.trim() {
                    "yes" => Some(true),
                    "no" => Some(false),
                    _ => None,
                };
            }
            "file" => return Ok((token, column, header, part.file)),
            _ => drop(body.field().await?),
        }
    }
    Err(malformed())
}

/// Reads the content and stores it in parts.
async fn take(visit: &Visit, body: &mut Multipart, list: &List, by: Authority) -> Result<(), Problem> {
    let bytes_max = visit.dashboard.lists.bytes_max;
    let problem = |error| match error {
        UploadError::Body(error) => not_arrived(error),
        UploadError::TooLong => too_long(bytes_max),
        UploadError::Gone | UploadError::Offset(_) => gone(),
        UploadError::StoreFull => Problem::new(503, STORE_FULL),
        UploadError::Store(error) => error.into(),
    };
    let store = Arc::clone(&visit.checks.store);
    let room = visit.dashboard.lists.room();
    let mut writer = PartWriter::open(store, list.clone(), bytes_max, room, by).await.map_err(problem)?;
    while let Some(piece) = body.piece().await? {
        writer.push(&piece).await.map_err(problem)?;
    }
    writer.flush().await.map(drop).map_err(problem)
}

fn not_arrived(error: BodyError) -> Problem {
    match error {
        BodyError::Broken => Problem::new(400, "The upload broke off."),
        BodyError::TooSlow => Problem::new(408, "The upload took too long to arrive."),
    }
}

fn too_long(bytes_max: u64) -> Problem {
    let mib = bytes_max >> 20;
    Problem::new(413, format!("A list can have at most {mib} MiB. Split the list, or compress it with gzip."))
}

fn gone() -> Problem {
    Problem::new(409, "The list was deleted during the upload.")
}

/// The head of a part.
struct Part {
    name: String,
    file: String,
}

/// A reader of the parts of a body.
struct Multipart {
    incoming: Box<dyn Incoming>,
    /// The end of a part: a line end, two dashes and the boundary.
    mark: Vec<u8>,
    /// Bytes that have arrived and are not used yet.
    buffer: Vec<u8>,
    /// Whether the reader is at the end of the current part.
    at_mark: bool,
}

impl Multipart {
    fn new(incoming: Box<dyn Incoming>, kind: &str) -> Result<Multipart, Problem> {
        let (essence, parameters) = kind.split_once(';').unwrap_or((kind, ""));
        let boundary = parameters.split(';').find_map(|parameter| {
            let (name, value) = parameter.trim().split_once('=')?;
            name.eq_ignore_ascii_case("boundary").then(|| value.trim_matches('"'))
        });
        let fits = |boundary: &&str| (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len());
        match boundary.filter(fits) {
            Some(boundary) if essence.trim().eq_ignore_ascii_case("multipart/form-data") => {
                let mark = format!("\r\n--{boundary}").into_bytes();
                // The first boundary has no line before it, so a line end is added.
                Ok(Multipart { incoming, mark, buffer: b"\r\n".to_vec(), at_mark: false })
            }
            _ => Err(Problem::new(415, "Send the form in the same way as the page.")),
        }
    }

    /// Reads more of the body; `false` at its end.
    async fn fill(&mut self) -> Result<bool, Problem> {
        match self.incoming.next().await.map_err(not_arrived)? {
            Some(piece) => {
                self.buffer.extend_from_slice(&piece);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Moves to the next part; `None` after the last.
    async fn part(&mut self) -> Result<Option<Part>, Problem> {
        let mut passed = 0;
        while let Some(piece) = self.piece().await? {
            // Bytes before the first boundary have no meaning, and browsers send none.
            passed += piece.len();
            if passed > FIELD_BYTES_MAX {
                return Err(malformed());
            }
        }
        self.at_mark = false;
        self.need(2).await?;
        if self.buffer.starts_with(b"--") {
            return Ok(None);
        }
        // Where no end of the head was found before: a head that comes in many pieces is searched once.
        let mut searched: usize = 0;
        let head = loop {
            // The bound holds for any number of bytes that arrive at once.
            let most = self.buffer.len().min(HEAD_BYTES_MAX);
            let from = searched.saturating_sub(HEAD_END.len() - 1);
            if let Some(at) = find(&self.buffer[from..most], HEAD_END) {
                let head: Vec<u8> = self.buffer.drain(..from + at + HEAD_END.len()).collect();
                // The mark can follow at once. Then the line end of the head is also the line end of the mark.
                self.buffer.splice(0..0, *b"\r\n");
                break head;
            }
            searched = most;
            if self.buffer.len() >= HEAD_BYTES_MAX {
                return Err(malformed());
            }
            if !self.fill().await? {
                return Err(incomplete());
            }
        };
        self.skip_line_end().await?;
        let head = String::from_utf8(head).map_err(|_| malformed())?;
        let disposition = head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))
            .ok_or_else(malformed)?;
        let name = parameter(disposition, "name").unwrap_or_default();
        Ok(Some(Part { name, file: parameter(disposition, "filename").unwrap_or_default() }))
    }

    /// Removes the line end that was added before the content. If the content is empty, the line end belongs to the mark and
    /// stays.
    async fn skip_line_end(&mut self) -> Result<(), Problem> {
        self.need(self.mark.len()).await?;
        if !self.buffer.starts_with(&self.mark) {
            self.buffer.drain(..2);
        }
        Ok(())
    }

    async fn need(&mut self, count: usize) -> Result<(), Problem> {
        while self.buffer.len() < count {
            if !self.fill().await? {
                return Err(incomplete());
            }
        }
        Ok(())
    }

    /// The next piece of the part's content; `None` at its end.
    async fn piece(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        if self.at_mark {
            return Ok(None);
        }
        loop {
            if let Some(at) = find(&self.buffer, &self.mark) {
                let content: Vec<u8> = self.buffer.drain(..at).collect();
                self.buffer.drain(..self.mark.len());
                self.at_mark = true;
                return Ok((!content.is_empty()).then_some(content));
            }
            // The last bytes of the buffer can be the beginning of the mark.
            let sure = self.buffer.len().saturating_sub(self.mark.len() - 1);
            if sure > 0 {
                return Ok(Some(self.buffer.drain(..sure).collect()));
            }
            if !self.fill().await? {
                return Err(incomplete());
            }
        }
    }

    /// The whole content of a short part.
    async fn field(&mut self) -> Result<String, Problem> {
        let mut whole = Vec::new();
        while let Some(piece) = self.piece().await? {
            whole.extend_from_slice(&piece);
            if whole.len() > FIELD_BYTES_MAX {
                return Err(malformed());
            }
        }
        String::from_utf8(whole).map_err(|_| malformed())
    }
}

/// A quoted parameter of a header. Browsers escape quotes and line ends in it with percent signs.
fn parameter(header: &str, name: &str) -> Option<String> {
    let at = header.find(&format!("; {name}=\""))?;
    let value = header.get(at + name.len() + 4..)?.split('"').next()?;
    Some(value.replace("%22", "\""))
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, needle)
}

/// The body ends before the end of the form.
fn incomplete() -> Problem {
    Problem::new(400, "The upload is incomplete. Try again.")
}

/// The body is not a form of the page.
fn malformed() -> Problem {
    Problem::new(400, "The upload is malformed. Send the form in the same way as the page.")
}

/// A body with all its pieces in memory, for tests and fuzzing.
#[cfg(any(test, feature = "fuzzing"))]
struct GivenPieces(std::vec::IntoIter<bytes::Bytes>);

#[cfg(any(test, feature = "fuzzing"))]
impl Incoming for GivenPieces {
    fn next(
        &mut self,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Option<bytes::Bytes>, BodyError>> + '_>> {
        let piece = self.0.next();
        Box::pin(async move { Ok(piece) })
    }

    fn most(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn multipart(body: &str, size: usize) -> Multipart {
        let pieces: Vec<Bytes> = body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        let given = Box::new(GivenPieces(pieces.into_iter()));
        Multipart::new(given, "multipart/form-data; boundary=XyZ").ok().unwrap()
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    const MALFORMED: &str = "The upload is malformed. Send the form in the same way as the page.";

    const BODY: &str = "--XyZ\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\ntoken\r\n\
        --XyZ\r\nContent-Disposition: form-data; name=\"column\"\r\n\r\n\r\n\
        --XyZ\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a%22b.csv\"\r\nContent-Type: text/csv\r\n\r\n\
        \r\nemail\r\n--Xy\r\n\r\n--XyZ--\r\n";

    #[test]
    fn an_account_that_was_deleted_meanwhile_sees_no_page() {
        let problem = refused(ListMade::NoAccount).err().unwrap();
        assert_eq!((problem.status(), problem.message()), (403, Problem::outdated().message()));
        assert!(matches!(refused(ListMade::Made), Ok(None)));
        assert!(matches!(refused(ListMade::StoreFull), Ok(Some((503, _)))));
    }

    #[test]
    fn parts_come_in_pieces_of_any_size() {
        for size in 1..BODY.len() {
            let mut body = multipart(BODY, size);
            let (token, column, header, file) = now(fields(&mut body)).ok().unwrap();
            assert_eq!((token.as_str(), column.as_str(), file.as_str()), ("token", "", "a\"b.csv"), "{size}");
            assert_eq!(header, None);
            let mut content = Vec::new();
            while let Some(piece) = now(body.piece()).ok().unwrap() {
                content.extend(piece);
            }
            assert_eq!(content, b"\r\nemail\r\n--Xy\r\n", "{size}");
            assert!(now(body.part()).ok().unwrap().is_none());
        }
    }

    #[test]
    fn what_is_cut_short_or_malformed_is_refused() {
        let incomplete = Err("The upload is incomplete. Try again.".to_owned());
        for end in [5, 30, 60, 90, BODY.len() - 10] {
            let mut body = multipart(&BODY[..end], 7);
            let all = async {
                fields(&mut body).await?;
                while body.piece().await?.is_some() {}
                Ok::<_, Problem>(())
            };
            assert_eq!(now(all).map_err(|problem| problem.message().to_owned()), incomplete, "{end}");
        }
        let malformed = |body: &str, size| {
            let outcome =
                now(fields(&mut multipart(body, size))).map_err(|problem| problem.message().to_owned());
            assert_eq!(outcome, Err(MALFORMED.to_owned()), "{size}");
        };
        let long = BODY.replacen("token", &"t".repeat(5000), 1);
        malformed(&long, 1000);
        let long = BODY.replacen("name=\"csrf\"", &format!("name=\"{}\"", "n".repeat(9000)), 1);
        // For any number of bytes at once.
        for size in [100, 1000, 4096, 100_000] {
            malformed(&long, size);
        }
        let preamble = "p".repeat(FIELD_BYTES_MAX - 100) + "\r\n" + BODY;
        assert!(now(fields(&mut multipart(&preamble, 1000))).is_ok());
        let preamble = "p".repeat(FIELD_BYTES_MAX + 100) + "\r\n" + BODY;
        malformed(&preamble, 1000);
        let no_file = "--XyZ\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\ntoken\r\n--XyZ--\r\n";
        malformed(no_file, 9);
        malformed(&BODY.replace("Content-Disposition", "Content-Type"), 9);
        for kind in [
            "text/csv",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/mixed; boundary=a",
        ] {
            assert!(Multipart::new(Box::new(GivenPieces(Vec::new().into_iter())), kind).is_err(), "{kind}");
        }
    }
}

//! One request from the view of a handler.

use crate::http::upload::Upload;
use crate::worker::Worker;
use bytes::Bytes;
use checks::auth::Caller;
use http_core::Refusal;
use list_work::downloads::Pieces;
use std::cell::Cell;
use std::rc::Rc;

/// One request from the view of a handler.
pub struct Call {
    /// The thread's state.
    pub worker: Rc<Worker>,
    /// The authenticated caller; there is one on every route that needs a key.
    pub caller: Option<Caller>,
    /// The raw query of the request.
    pub query: String,
    /// The raw text of the path's parameter; empty if the route has none.
    pub parameter: String,
    /// The raw values of the header `Idempotency-Key`.
    pub idempotency_key: Vec<Vec<u8>>,
    /// The raw values of the headers of an upload.
    pub upload_head: UploadHead,
    /// The body; empty if the route has none, or if it is content.
    pub body: Bytes,
    /// The content, while it arrives.
    pub content: Option<Box<Upload>>,
    /// The place for the body of an answer that is made while it is sent, if the route can have one. It replaces the body of the
    /// reply.
    pub pieces: Option<Rc<Cell<Option<Pieces>>>>,
}

/// The raw values of the headers of an upload in parts.
#[derive(Default)]
pub struct UploadHead {
    /// `Upload-Offset`.
    pub offset: Vec<Vec<u8>>,
    /// `Upload-Complete`.
    pub complete: Vec<Vec<u8>>,
}

impl Call {
    /// The authenticated caller.
    ///
    /// # Errors
    ///
    /// A defect: the route needs no key.
    pub fn caller(&self) -> Result<Caller, Refusal> {
        self.caller.ok_or_else(|| Refusal::defect().inside("a route without a key asked who calls"))
    }
}

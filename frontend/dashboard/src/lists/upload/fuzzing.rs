//! The reader of uploads as a function of bytes, for fuzzing.

use super::{GivenPieces, Multipart, fields};
use crate::problem::Problem;
use bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The parts of an upload.
#[derive(Debug, PartialEq, Eq)]
pub struct Upload {
    /// The token against forgery.
    pub token: String,
    /// The column that the user named.
    pub column: String,
    /// The name of the uploaded file.
    pub file: String,
    /// The content of the uploaded file.
    pub content: Vec<u8>,
}

/// Reads an upload with this Content-Type and these pieces of its body.
///
/// # Errors
/// The status of the refusal.
pub fn upload(kind: &str, pieces: &[&[u8]]) -> Result<Upload, u16> {
    let pieces: Vec<Bytes> = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
    let read = async {
        let mut body = Multipart::new(Box::new(GivenPieces(pieces.into_iter())), kind)?;
        let (token, column, _, file) = fields(&mut body).await?;
        let mut content = Vec::new();
        while let Some(piece) = body.piece().await? {
            content.extend_from_slice(&piece);
        }
        Ok(Upload { token, column, file, content })
    };
    let mut read = pin!(read);
    // The future waits only for pieces, and all pieces are available.
    loop {
        if let Poll::Ready(outcome) = read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome.map_err(|problem: Problem| problem.status());
        }
    }
}

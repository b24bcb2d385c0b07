//! Uploads: the result does not depend on the pieces, and is limited.
//!
//! An input is a byte for the form of the Content-Type and the body, whose boundary is `XyZ`.

use crate::grammar::Grammar;
use crate::input::cut;
use dashboard::lists::upload::fuzzing::upload;
use fastrand::Rng;
use std::sync::LazyLock;

const KINDS: [&str; 4] = [
    "multipart/form-data; boundary=XyZ",
    "Multipart/Form-Data ; charset=x; Boundary=\"XyZ\"",
    "multipart/form-data; boundary=-",
    "multipart/mixed; boundary=XyZ",
];
/// The longest field apart from the file, as in the reader.
const FIELD_BYTES_MAX: usize = 4 * 1024;

static GRAMMAR: LazyLock<Grammar> =
    LazyLock::new(|| Grammar::of(include_str!("../../grammars/multipart.txt")));

pub fn grow(random: &mut Rng) -> Vec<u8> {
    GRAMMAR.grow("start", random).into_bytes()
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Some((&kind, body)) = input.split_first() else { return Ok(()) };
    let kind = KINDS[usize::from(kind) % KINDS.len()];
    let whole = upload(kind, &[body]);
    let pieces = cut(body);
    let again = upload(kind, &pieces);
    if again != whole {
        return Err(format!("in {} pieces it is {again:?}, whole it is {whole:?}", pieces.len()));
    }
    let Ok(read) = whole else { return Ok(()) };
    if [&read.token, &read.column].iter().any(|field| field.len() > FIELD_BYTES_MAX) {
        return Err("a field beyond its limit".into());
    }
    if read.content.len() + read.file.len() > body.len() {
        return Err("more than there was".into());
    }
    Ok(())
}

/// Whether the input is an upload.
#[cfg(test)]
pub fn passes(input: &[u8]) -> bool {
    upload(KINDS[0], &[&input[1..]]).is_ok()
}

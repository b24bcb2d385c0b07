//! Uploads: the result does not depend on the pieces, and is limited.
//!
//! An input is a byte for the form of the Content-Type and the body, whose boundary is `XyZ`.

use crate::input::{cut, one};
use dashboard::lists::upload::fuzzing::upload;
use fastrand::Rng;

const KINDS: [&str; 4] = [
    "multipart/form-data; boundary=XyZ",
    "Multipart/Form-Data ; charset=x; Boundary=\"XyZ\"",
    "multipart/form-data; boundary=-",
    "multipart/mixed; boundary=XyZ",
];
/// The longest field apart from the file, as in the reader.
const FIELD_BYTES_MAX: usize = 4 * 1024;

pub fn grow(random: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..random.usize(1..5) {
        text.push_str(one(random, &["--XyZ\r\n", "--XyZ\r\n", "--XyZ\r\n", "--XyZ", "--Xy\r\n"]));
        if random.u8(..8) == 0 {
            text.push_str(one(random, &["X: y\r\n", "Content-Type: text/csv\r\n", "\n", "é: \r\n"]));
        }
        text.push_str("Content-Disposition: form-data; ");
        text.push_str(one(
            random,
            &[
                "name=\"csrf\"",
                "name=\"column\"",
                "name=\"file\"; filename=\"a%22b.csv\"",
                "name=\"file\"; filename=\"\"",
                "name=\"x\"",
                "filename=\"a\"",
            ],
        ));
        text.push_str(one(random, &["\r\n\r\n", "\r\n\r\n", "\r\n\r\n", "\r\n"]));
        match random.u8(..24) {
            0 => text.push_str(&"x".repeat(random.usize(..5000))),
            _ => {
                text.push_str(one(random, &["", "token", "email\r\na@b.example\r\n", "\r\n--Xy\r\n", "\r\n"]))
            }
        }
        text.push_str("\r\n");
    }
    text.push_str(one(random, &["--XyZ--\r\n", "--XyZ--\r\n", "--XyZ", ""]));
    [&[if random.u8(..8) == 0 { random.u8(..) } else { 0 }], text.as_bytes()].concat()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_uploads_and_many_are_not() {
        let mut random = Rng::with_seed(1);
        let mut whole = || upload(KINDS[0], &[&grow(&mut random)[1..]]).is_ok();
        let share = (0..1000).filter(|_| whole()).count();
        assert!((50..900).contains(&share), "{share} of 1000");
    }
}

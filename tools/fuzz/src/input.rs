//! Inputs that are made from other inputs, and all relevant divisions of a byte stream.

use fastrand::Rng;
use std::collections::VecDeque;
use std::io::{self, Read};

/// The longest input in bytes: beyond every limit of a reply, a name and an address.
pub const BYTES_MAX: usize = 20_000;

/// Bytes with a meaning for some parser.
const TELLING: [u8; 24] = [
    0, 1, 2, 9, b'\n', b'\r', b' ', b'"', b'-', b'.', b'0', b'2', b'5', b'9', b'@', b'\\', b'a', b'x', 0x7f,
    0x80, 0xc0, 0xc3, 0xe2, 0xff,
];

/// The hash FNV-1a, as a source of decisions.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The input `old` with a few changes.
pub fn change(random: &mut Rng, old: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let mut new = old.to_vec();
    for _ in 0..random.usize(1..6) {
        change_once(random, &mut new, others);
    }
    new.truncate(BYTES_MAX);
    new
}

fn change_once(random: &mut Rng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    let at = random.usize(..=bytes.len());
    let end = (at + random.usize(1..24)).min(bytes.len());
    match random.u8(..8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
        1 if at < bytes.len() => bytes[at] = random.u8(..),
        2 if at < bytes.len() => bytes[at] = TELLING[random.usize(..TELLING.len())],
        3 => bytes.insert(at, TELLING[random.usize(..TELLING.len())]),
        4 => drop(bytes.drain(at..end)),
        5 => bytes.truncate(at),
        6 => {
            let times = 1 << random.usize(..8);
            let piece = bytes[at..end].repeat(times);
            bytes.splice(at..at, piece);
        }
        _ => {
            let Some(other) = random.choice(others) else { return };
            let from = random.usize(..=other.len());
            let to = (from + random.usize(1..200)).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
    }
}

/// The same bytes in other pieces: single bytes, small equal pieces, or pieces that depend on the bytes. The bytes also
/// select the variant: testing all of them would make the campaign several times as slow.
pub fn cut(bytes: &[u8]) -> Vec<&[u8]> {
    let mut random = Rng::with_seed(hash(bytes));
    match random.u8(..4) {
        0 => bytes.chunks(1).collect(),
        1 => bytes.chunks(2).collect(),
        2 => bytes.chunks(7).collect(),
        _ => drawn(&mut random, bytes),
    }
}

fn drawn<'b>(random: &mut Rng, mut rest: &'b [u8]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let most = if random.bool() { 8 } else { 3000 };
        let (piece, more) = rest.split_at(random.usize(1..=rest.len().min(most)));
        pieces.push(piece);
        rest = more;
    }
    pieces
}

/// A reader of [`cut`] bytes: it returns at most one piece at a time.
pub struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    at: usize,
}

impl Pieces {
    /// A reader of these bytes.
    pub fn of(bytes: &[u8]) -> Pieces {
        Pieces { pieces: cut(bytes).into_iter().map(<[u8]>::to_vec).collect(), at: 0 }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = self.pieces.front() else { return Ok(0) };
        let count = buffer.len().min(piece.len() - self.at);
        buffer[..count].copy_from_slice(&piece[self.at..self.at + count]);
        self.at += count;
        if self.at == piece.len() {
            self.pieces.pop_front();
            self.at = 0;
        }
        Ok(count)
    }
}

/// Checks that a message is one line that can be printed.
///
/// # Errors
///
/// It is not.
pub fn one_line(message: &str) -> Result<(), String> {
    let printable = !message.is_empty() && !message.chars().any(char::is_control);
    if printable {
        Ok(())
    } else {
        Err(format!("the message is not one line that can be printed: {message:?}"))
    }
}

/// A random element of this list.
pub fn one<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

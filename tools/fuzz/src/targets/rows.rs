//! Rows of the store from a damaged file: they are refused, or are the same after writing and reading.
//!
//! An input is a byte for the kind of row, and its bytes.

use crate::input::one;
use fastrand::Rng;
use store_rules::fuzzing::{ROWS, row};

pub fn grow(random: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![random.u8(..) % ROWS as u8];
    for _ in 0..random.usize(1..16) {
        match random.u8(..8) {
            0..=2 => bytes.push(random.u8(..3)),
            3 => number(random.u64(..) >> random.u32(..64), &mut bytes),
            4 => {
                let text = one(random, &["", "a", "free", "a@b.example", "é", "https://a.example/cb"]);
                number(text.len() as u64, &mut bytes);
                bytes.extend_from_slice(text.as_bytes());
            }
            5 => bytes.extend((0..16).map(|_| random.u8(..))),
            6 => bytes.extend((0..32).map(|_| random.u8(..))),
            _ => bytes.push(random.u8(..)),
        }
    }
    bytes
}

fn number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Some((&kind, bytes)) = input.split_first() else { return Ok(()) };
    row(kind.into(), bytes).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_has_a_row_of_every_kind() {
        let inputs = crate::corpus::read("rows").unwrap();
        for kind in 0..ROWS {
            let of_kind =
                |input: &&Vec<u8>| input.first().is_some_and(|byte| usize::from(*byte) % ROWS == kind);
            let read = inputs.iter().filter(of_kind).any(|input| row(kind, &input[1..]) == Ok(true));
            assert!(read, "kind {kind}");
        }
    }
}

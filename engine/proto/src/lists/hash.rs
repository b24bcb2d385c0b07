//! The hash of an entry of a list. The build script calculates it too, so this file needs nothing else of the crate.

/// FNV-1a over the letters in lower case.
pub(crate) fn fnv(text: &str) -> u64 {
    let mix =
        |hash: u64, byte: u8| (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The text of a list without its header. Each line of the header begins with `#`.
pub(crate) const fn below_header(text: &str) -> &str {
    let bytes = text.as_bytes();
    let mut start = 0;
    while start < bytes.len() && bytes[start] == b'#' {
        while start < bytes.len() && bytes[start] != b'\n' {
            start += 1;
        }
        start += 1;
    }
    text.split_at(start).1
}

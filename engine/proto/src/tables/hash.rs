//! The hash of a list entry. The build script includes this file too, so it must not use anything else from the crate.

/// FNV-1a over the bytes, with ASCII letters in lower case.
pub(crate) fn fnv(text: &str) -> u64 {
    let mix =
        |hash: u64, byte: u8| (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The text of a list without its header. Each line of the header begins with `#` and ends with a newline.
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

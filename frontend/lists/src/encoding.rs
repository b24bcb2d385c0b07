//! The encoding of a list, which its output keeps.
//!
//! - In UTF-8 and in all legacy encodings here, the bytes of separators, quotes and line ends mean nothing else. Such lists are
//!   split as bytes, and their cells are copied as bytes. Only the cell of the address and the names of columns are decoded. So no
//!   cell changes, even if the detection is wrong or the list mixes encodings.
//! - UTF-16 is decoded while it is read ([`utf16::Decoder`]), and each output row is encoded again. Unpaired surrogates stay as
//!   they are.

mod detect;
pub(crate) mod utf16;

pub(crate) use detect::detect;
use encoding_rs::UTF_8;
use std::borrow::Cow;

/// The byte order mark in UTF-8. Spreadsheets write it at the beginning of a CSV file.
const UTF_8_BOM: &[u8] = b"\xef\xbb\xbf";

/// The encoding of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    charset: Charset,
    /// Whether the list begins with a byte order mark.
    has_bom: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charset {
    /// UTF-8 or a legacy encoding.
    Bytes(&'static encoding_rs::Encoding),
    Utf16(ByteOrder),
}

/// The order of the bytes of UTF-16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl Encoding {
    /// UTF-8 without a byte order mark.
    pub const UTF_8: Encoding = Encoding::utf_8(false);

    /// UTF-8, with or without a byte order mark.
    pub(crate) const fn utf_8(has_bom: bool) -> Encoding {
        Encoding { charset: Charset::Bytes(UTF_8), has_bom }
    }

    pub(crate) const fn utf_16(order: ByteOrder, has_bom: bool) -> Encoding {
        Encoding { charset: Charset::Utf16(order), has_bom }
    }

    pub(crate) const fn legacy(encoding: &'static encoding_rs::Encoding) -> Encoding {
        Encoding { charset: Charset::Bytes(encoding), has_bom: false }
    }

    /// Its name in the registry of IANA, for example `UTF-8` or `windows-1252`.
    pub fn name(self) -> &'static str {
        match self.charset {
            Charset::Bytes(encoding) => encoding.name(),
            Charset::Utf16(ByteOrder::Little) => "UTF-16LE",
            Charset::Utf16(ByteOrder::Big) => "UTF-16BE",
        }
    }

    /// Whether the list begins with a byte order mark.
    pub fn has_bom(self) -> bool {
        self.has_bom
    }

    /// The byte order mark of the list, or nothing.
    pub(crate) fn bom(self) -> &'static [u8] {
        match self.charset {
            _ if !self.has_bom => &[],
            Charset::Bytes(_) => UTF_8_BOM,
            Charset::Utf16(ByteOrder::Little) => b"\xff\xfe",
            Charset::Utf16(ByteOrder::Big) => b"\xfe\xff",
        }
    }

    /// The order of bytes, if the list is UTF-16.
    pub(crate) fn byte_order(self) -> Option<ByteOrder> {
        match self.charset {
            Charset::Bytes(_) => None,
            Charset::Utf16(order) => Some(order),
        }
    }

    /// Whether a character may contain the byte of `|`. Such a list cannot be split at this byte.
    pub(crate) fn hides_pipes(self) -> bool {
        let hiding = [encoding_rs::SHIFT_JIS, encoding_rs::GBK, encoding_rs::GB18030, encoding_rs::BIG5];
        matches!(self.charset, Charset::Bytes(encoding) if hiding.contains(&encoding))
    }

    /// The text of a cell. Bytes that are no characters become U+FFFD. Cells of UTF-16 are decoded already.
    pub fn text(self, cell: &[u8]) -> Cow<'_, str> {
        match (self.charset, std::str::from_utf8(cell)) {
            (Charset::Bytes(encoding), _) if encoding != UTF_8 => {
                encoding.decode_without_bom_handling(cell).0
            }
            (_, Ok(text)) => Cow::Borrowed(text),
            (_, Err(_)) => String::from_utf8_lossy(cell),
        }
    }

    /// A text as the bytes of a cell. Cells of UTF-16 are encoded later. A text with characters that the encoding lacks is empty.
    pub(crate) fn bytes(self, text: &str) -> Cow<'_, [u8]> {
        match self.charset {
            Charset::Bytes(encoding) if encoding != UTF_8 && !text.is_ascii() => {
                let (bytes, _, has_failed) = encoding.encode(text);
                if has_failed { Cow::Borrowed(&[]) } else { bytes }
            }
            _ => Cow::Borrowed(text.as_bytes()),
        }
    }

    /// Whether all bytes of a row are characters. A row of UTF-16 is decoded already.
    pub(crate) fn is_valid(self, row: &[u8]) -> bool {
        match self.charset {
            Charset::Bytes(encoding) if encoding != UTF_8 => {
                row.is_ascii() || !encoding.decode_without_bom_handling(row).1
            }
            Charset::Bytes(_) => std::str::from_utf8(row).is_ok(),
            Charset::Utf16(_) => true,
        }
    }

    /// Encodes what was written for the output from `from` on.
    pub(crate) fn encode(self, out: &mut Vec<u8>, from: usize) {
        if let Charset::Utf16(order) = self.charset {
            let text = out.split_off(from);
            utf16::encode(&text, order, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_decoded() {
        let western = Encoding::legacy(encoding_rs::WINDOWS_1252);
        assert_eq!(western.text(b"M\xfcller"), "Müller");
        assert_eq!(Encoding::utf_8(false).text(b"M\xfcller"), "M\u{fffd}ller");
        assert_eq!(Encoding::legacy(encoding_rs::SHIFT_JIS).text(b"\x83\x81"), "メ");
        assert!(western.is_valid(b"M\xfcller") && !Encoding::utf_8(false).is_valid(b"M\xfcller"));
        assert!(!Encoding::legacy(encoding_rs::SHIFT_JIS).is_valid(b"a\xff"));
    }

    #[test]
    fn encodings_have_names_and_marks() {
        for (encoding, name, bom) in [
            (Encoding::utf_8(true), "UTF-8", &b"\xef\xbb\xbf"[..]),
            (Encoding::utf_8(false), "UTF-8", b""),
            (Encoding::utf_16(ByteOrder::Big, true), "UTF-16BE", b"\xfe\xff"),
            (Encoding::utf_16(ByteOrder::Little, true), "UTF-16LE", b"\xff\xfe"),
            (Encoding::legacy(encoding_rs::KOI8_R), "KOI8-R", b""),
        ] {
            assert_eq!((encoding.name(), encoding.bom()), (name, bom));
        }
    }
}

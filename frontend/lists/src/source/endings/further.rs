//! Rows with further columns of results after the verdict. Their values are not known in advance, so these rows are written and read
//! value by value.

use super::super::escapes;
use super::{Endings, RowParts, csv_value, mark_tail};
use crate::encoding::utf16;
use crate::json;
use crate::{ResultColumn, Results, WrittenResults};
use std::borrow::Cow;
use std::io::Read;

/// The further columns of results.
#[derive(Debug, Clone)]
pub(crate) struct Further {
    pub columns: Vec<ResultColumn>,
    /// The text before the value of each column.
    pub leads: Vec<Vec<u8>>,
    /// The text after the last value of a row that has no more values.
    pub end: Vec<u8>,
    /// Whether the values are JSON.
    pub is_json: bool,
}

/// A row that was found in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRow {
    /// The code of its verdict.
    pub code: u8,
    /// Its further results.
    pub results: WrittenResults,
    /// Length of the row, in bytes.
    pub length: usize,
}

impl Endings {
    /// Whether rows have further columns of results. Then [`Endings::write`] and [`Endings::read`] take the place of
    /// [`Endings::pieces`] and [`RowParts::verdicts`].
    pub fn has_further(&self) -> bool {
        self.further.is_some()
    }

    /// Appends a row with the verdict of this code and its further results.
    pub fn write(&self, row: &[u8], code: u8, results: &Results<'_>, out: &mut Vec<u8>) {
        let Some(further) = &self.further else {
            self.pieces(row, code).into_iter().for_each(|piece| out.extend_from_slice(piece));
            return;
        };
        let RowParts { prefix, tail, .. } = self.parts(row);
        out.extend_from_slice(prefix);
        out.extend_from_slice(self.bare.get(usize::from(code)).map_or(&[][..], Vec::as_slice));
        let from = out.len();
        for (&column, lead) in further.columns.iter().zip(&further.leads) {
            out.extend_from_slice(lead);
            let value = results.value(column);
            if further.is_json {
                json::write_result(column, &value, out);
            } else {
                let value = self.encoding.bytes(&value);
                csv_value(&value, &self.quoted_bytes, out);
            }
        }
        if tail.is_empty() {
            out.extend_from_slice(&further.end);
        }
        self.encoding.encode(out, from);
        out.extend_from_slice(tail);
    }

    /// Finds a row at the beginning of these bytes of the output, which contain its line end. `None` if they begin with another row.
    pub fn read(&self, row: &[u8], output: &[u8]) -> Option<FoundRow> {
        let further = self.further.as_ref()?;
        let RowParts { prefix, tail, .. } = self.parts(row);
        let rest = output.strip_prefix(prefix)?;
        let (code, results, length) = self.values(further, rest)?;
        let end = self.end(further, tail);
        rest[length..].starts_with(&end).then(|| FoundRow {
            code,
            results,
            length: prefix.len() + length + end.len(),
        })
    }

    /// Splits a row of the output with its line end: as it was found, and the row as [`Endings::parts`] takes it. `None` if it has no
    /// verdict.
    pub fn split_further(&self, output: &[u8]) -> Option<(FoundRow, Vec<u8>)> {
        let further = self.further.as_ref()?;
        let at = match self.column {
            Some(column) => self.start_of(column, output)?,
            // A quote in a text of JSON has a backslash, so that the name of a key occurs in no value.
            None => {
                let name = self.bare.get(1)?.split_inclusive(|&byte| byte == b':').next()?;
                output.windows(name.len()).rposition(|window| window == name)?
            }
        };
        let (prefix, rest) = output.split_at(at);
        let (code, results, length) = self.values(further, rest)?;
        let mut row = prefix.to_vec();
        if rest[length..] != *self.end(further, &[]) {
            row.extend_from_slice(&rest[length..]);
            mark_tail(&mut row, prefix.len());
        }
        Some((FoundRow { code, results, length: output.len() }, row))
    }

    /// What follows the last result of a row.
    fn end<'a>(&self, further: &Further, tail: &'a [u8]) -> Cow<'a, [u8]> {
        if !tail.is_empty() {
            return Cow::Borrowed(tail);
        }
        let mut end = further.end.clone();
        self.encoding.encode(&mut end, 0);
        Cow::Owned(end)
    }

    /// Reads a verdict and its further results: the code, the results and the number of bytes.
    fn values(&self, further: &Further, output: &[u8]) -> Option<(u8, WrittenResults, usize)> {
        let text = self.decoded(output);
        let is_verdict = |verdict: &Vec<u8>| {
            text.strip_prefix(verdict.as_slice()).is_some_and(|rest| rest.starts_with(&further.leads[0]))
        };
        let code = self.plain.iter().skip(1).position(is_verdict)? + 1;
        let (mut rest, mut results) = (&text[self.plain[code].len()..], WrittenResults::default());
        for (&column, lead) in further.columns.iter().zip(&further.leads) {
            rest = rest.strip_prefix(lead.as_slice())?;
            let (value, after) = match further.is_json {
                true => json_value(column, rest)?,
                false => self.cell(rest)?,
            };
            results.set(column, &value);
            rest = after;
        }
        let mut read = text[..text.len() - rest.len()].to_vec();
        self.encoding.encode(&mut read, 0);
        Some((u8::try_from(code).ok()?, results, read.len()))
    }

    /// The bytes of a row in UTF-8 if the list is UTF-16; else as they are.
    pub(crate) fn decoded<'a>(&self, output: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(order) = self.byte_order else { return Cow::Borrowed(output) };
        let mut text = Vec::new();
        // Half a character at the end is no part of a value.
        let _ = utf16::Decoder::new(output, order).read_to_end(&mut text);
        Cow::Owned(text)
    }

    /// The text of the first cell, and what follows it.
    fn cell<'a>(&self, text: &'a [u8]) -> Option<(String, &'a [u8])> {
        let (cell, rest) = self.raw_cell(text)?;
        Some((String::from_utf8_lossy(&cell).into_owned(), rest))
    }

    /// The bytes of the first cell, and what follows it. The row has a line end, and is decoded.
    pub(crate) fn raw_cell<'a>(&self, text: &'a [u8]) -> Option<(Cow<'a, [u8]>, &'a [u8])> {
        let Some(quoted) = text.strip_prefix(b"\"").filter(|_| self.has_quotes) else {
            let is_end = |byte: u8| byte == self.delimiter_byte || matches!(byte, b'\r' | b'\n');
            let (cell, rest) = text.split_at(escapes::position(text, self.has_escapes, is_end)?);
            return Some((Cow::Borrowed(cell), rest));
        };
        let unescaped = |cell: &'a [u8]| match cell.contains(&b'"') {
            false => Cow::Borrowed(cell),
            true => {
                let mut is_second = false;
                let is_kept = |byte: &&u8| {
                    is_second = **byte == b'"' && !is_second;
                    **byte != b'"' || is_second
                };
                Cow::Owned(cell.iter().filter(is_kept).copied().collect())
            }
        };
        let mut at = 0;
        loop {
            at += escapes::position(&quoted[at..], self.has_escapes, |byte| byte == b'"')?;
            if quoted.get(at + 1) != Some(&b'"') {
                return Some((unescaped(&quoted[..at]), &quoted[at + 1..]));
            }
            at += 2;
        }
    }
}

/// The first value of JSON, and what follows it.
fn json_value(column: ResultColumn, text: &[u8]) -> Option<(String, &[u8])> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<&serde_json::value::RawValue>();
    let value = values.next()?.ok()?.get();
    Some((json::result(column, value)?, &text[value.len()..]))
}

#[cfg(test)]
mod tests {
    use crate::results::tests::EXAMPLE;
    use crate::{FoundRow, OutputRows, ReadOptions, ResultColumn, Results, Row, Source, WrittenResults};
    use std::io::Cursor;

    /// Writes the rows of a list, and finds each of them again.
    #[track_caller]
    fn check(list: &[u8], columns: &[String]) {
        let options = ReadOptions { results: &ResultColumn::ALL, columns, ..ReadOptions::default() };
        let mut source = Source::new(Box::new(Cursor::new(list.to_vec())), "x", None, &options).unwrap();
        let (endings, head) = (source.shape().endings(), source.shape().head());
        let results = Results {
            suggestion: "\"a;,|é\"@gmail.com",
            score: Some(7),
            checked_at: Some(1_795_619_459),
            ..EXAMPLE
        };
        let results_of = |n: usize| if n.is_multiple_of(2) { results } else { Results::default() };
        let (mut row, mut output, mut rows) = (Row::default(), head.clone(), Vec::new());
        while source.next(&mut row).unwrap() {
            let code = rows.len() as u8 % 3 + 1;
            endings.write(&row.prefix, code, &results_of(rows.len()), &mut output);
            rows.push(row.prefix.clone());
        }
        let (mut at, mut last) = (head.len(), 0);
        for (n, prefix) in rows.iter().enumerate() {
            let found = endings.read(prefix, &output[at..]).unwrap_or_else(|| panic!("row {n}"));
            let Results { provider, rule, scope, reply_code, enhanced_code, score, checked_at, .. } =
                results_of(n);
            let (provider, rule) = (provider.into(), rule.into());
            let (scope, enhanced_code) = (scope.into(), enhanced_code.into());
            let written =
                WrittenResults { provider, rule, scope, reply_code, enhanced_code, score, checked_at };
            assert_eq!((found.code, &found.results), (n as u8 % 3 + 1, &written), "row {n}");
            assert_eq!(endings.read(b"other,", &output[at..]), None);
            (last, at) = (at, at + found.length);
        }
        assert_eq!(at, output.len());
        if source.shape().addresses() == 1 {
            let mut lines = OutputRows::new(&output[..], &head, &endings).unwrap();
            for (n, prefix) in rows.iter().enumerate() {
                let line = lines.next().unwrap().unwrap();
                let (FoundRow { code, .. }, row) = endings.split_further(line).unwrap();
                assert_eq!((code, &row), (n as u8 % 3 + 1, prefix), "row {n}");
                assert_eq!(endings.code(line), Some(code));
            }
            assert_eq!(lines.next().unwrap(), None);
            // A row without its end is none.
            assert_eq!(endings.read(rows.last().unwrap(), &output[last..output.len() - 1]), None);
        }
    }

    #[test]
    fn rows_are_found_again_in_each_format_and_encoding() {
        let csv = "email;näme\r\na@b.co;\"x;\n\"\"\"\r\nnobody;\r\nc@d.co;1;2;\"3\"\r\n";
        check(csv.as_bytes(), &[]);
        let utf_16 = |text: &str| -> Vec<u8> {
            std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
        };
        check(&utf_16(csv), &[]);
        check(b"email,name\na@b.co,M\xfcller\nc@d.co,J\xf6rg\ne@f.co,x\n", &[]);
        check("{\"email\":\"a@b.co\",\"x\":\"\\\"deliverable\\\":true\"}\n{\"email\":1}\n{\"email\":\"c@d.co\"}\n".as_bytes(), &[]);
        check(b"a@b.co\n\"x\"@b.co\nnobody\n", &[]);
        check(
            b"work,home\na@b.co,c@d.co\nx,y\ne@f.co,g@h.co,more\n",
            &["work".to_owned(), "home".to_owned()],
        );
    }
}

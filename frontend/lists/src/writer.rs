//! The rows of a list with their verdicts, in the format of the list or in another one.

use crate::json::{self, Object};
use crate::{Endings, Format, Results, Row, Source, reasons};
use api::Reason;

/// The name of the address column if the rows of the list have no columns.
const ADDRESS: &str = "email";

/// Writes rows with their verdicts. The source must be the one that read them.
pub struct RowWriter {
    form: Form,
    /// The verdicts of rows in another format, by their code.
    suffixes: Vec<Vec<u8>>,
}

enum Form {
    /// As the list itself.
    Own(Box<Endings>),
    /// CSV of JSON lines: only the address, since each object may have other keys.
    CsvOfObjects,
    /// JSON lines of CSV: each value with the name of its column.
    ObjectsOfValues(Vec<String>),
}

impl RowWriter {
    /// A writer of this format. Without one, the rows have the format of the list; plain text becomes CSV without a header.
    pub fn new(source: &Source, format: Option<Format>) -> RowWriter {
        let shape = source.shape();
        let is_json = shape.format == Format::Jsonl;
        let form = match format {
            Some(Format::Jsonl) if !is_json => Form::ObjectsOfValues(names(source)),
            Some(Format::Csv | Format::Text) if is_json => Form::CsvOfObjects,
            _ => Form::Own(Box::new(shape.endings())),
        };
        let suffixes = match form {
            Form::Own(_) => Vec::new(),
            Form::CsvOfObjects => suffixes(|reason| {
                format!("{},{}", reasons::deliverable_csv(reason), reason.as_str()).into_bytes()
            }),
            Form::ObjectsOfValues(_) => suffixes(|reason| {
                let mut out = Vec::new();
                json::verdict(reason, shape.verdict_names(), &mut out);
                out
            }),
        };
        RowWriter { form, suffixes }
    }

    /// The output before the first row.
    pub fn head(&self, source: &Source) -> Vec<u8> {
        match self.form {
            Form::Own(_) => source.shape().head(),
            Form::CsvOfObjects => {
                let further = source.shape().further_columns().iter().map(|column| column.as_str());
                let names = [ADDRESS, "deliverable", "reason"].into_iter().chain(further);
                (names.collect::<Vec<_>>().join(",") + "\n").into_bytes()
            }
            Form::ObjectsOfValues(_) => Vec::new(),
        }
    }

    /// Writes the last row of the source. `results` are the values of its further columns, if it has some.
    pub fn row(&self, source: &Source, row: &Row, reason: Reason, results: &Results<'_>, out: &mut Vec<u8>) {
        let code = reasons::code(reason);
        match &self.form {
            Form::Own(endings) => return endings.write(&row.prefix, code, results, out),
            Form::CsvOfObjects => {
                let object = Object::parse(source.line_bytes()).ok();
                let text = object.and_then(|object| object.text(&source.shape().key)).unwrap_or_default();
                source.shape().value(text.as_bytes(), out);
                out.push(source.shape().delimiter());
            }
            Form::ObjectsOfValues(names) => object_of(names, source, out),
        }
        out.extend_from_slice(self.suffixes.get(usize::from(code)).map_or(&[], Vec::as_slice));
        let (columns, names) = (source.shape().further_columns(), &source.shape().verdict_names().further);
        let is_json = matches!(self.form, Form::ObjectsOfValues(_));
        for (&column, name) in columns.iter().zip(names) {
            let value = results.value(column);
            if is_json {
                out.extend(json::lead(name));
                json::write_result(column, &value, out);
            } else {
                out.push(b',');
                source.shape().value(value.as_bytes(), out);
            }
        }
        out.extend_from_slice(if is_json && !columns.is_empty() { b"}\n" } else { b"\n" });
    }
}

fn suffixes(suffix: impl Fn(Reason) -> Vec<u8>) -> Vec<Vec<u8>> {
    std::iter::once(Vec::new()).chain(Reason::ALL.map(suffix)).collect()
}

/// The name of each column. An empty or repeated name, or one of the verdict's, becomes the number of the column.
fn names(source: &Source) -> Vec<String> {
    if source.shape().format == Format::Text {
        return vec![ADDRESS.to_owned()];
    }
    let verdict: Vec<&[u8]> = source.shape().verdict_names().all().map(Vec::as_slice).collect();
    let mut names: Vec<String> = Vec::new();
    for at in 0..source.shape().column_count() {
        let name = source.shape().column_name(at);
        let is_free =
            |name: &String| !name.is_empty() && !names.contains(name) && !verdict.contains(&name.as_bytes());
        names.push(name.filter(is_free).unwrap_or_else(|| format!("column_{}", at + 1)));
    }
    names
}

/// The values of a row as the beginning of an object.
fn object_of(names: &[String], source: &Source, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut write = |name: &str, value: &[u8]| {
        // A text can always be written as JSON.
        for (text, end) in [(name, b':'), (&*source.shape().text(value), b',')] {
            out.extend(serde_json::to_string(text).unwrap_or_default().bytes());
            out.push(end);
        }
    };
    if source.shape().format == Format::Text {
        return names.iter().for_each(|name| write(name, source.line_bytes()));
    }
    for (at, value) in source.fields().iter().enumerate() {
        if source.shape().is_earlier(at) {
            continue;
        }
        match names.get(at) {
            Some(name) => write(name, value),
            // A row that is longer than the others.
            None => write(&format!("column_{}", at + 1), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::EXAMPLE;
    use crate::{ReadOptions, ResultColumn};
    use std::io::Cursor;

    #[track_caller]
    fn check(list: &str, format: Option<Format>, expected: &str) {
        check_with(&[], list, format, expected);
    }

    #[track_caller]
    fn check_with(results: &[ResultColumn], list: &str, format: Option<Format>, expected: &str) {
        let input = Box::new(Cursor::new(list.to_owned()));
        let options = ReadOptions { results, ..ReadOptions::default() };
        let mut source = Source::new(input, "x", None, &options).unwrap();
        let writer = RowWriter::new(&source, format);
        let (mut out, mut row) = (writer.head(&source), Row::default());
        while source.next(&mut row).unwrap() {
            let reason = row.address.as_ref().map_or(Reason::InvalidSyntax, |_| Reason::MailboxExists);
            let results = row.address.as_ref().map_or(Results::default(), |_| EXAMPLE);
            writer.row(&source, &row, reason, &results, &mut out);
        }
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    const CSV: &str = "id;e-mail;reason\n1;a@b.co;\"x;\"\"y\"\n2;none;z\n";
    const JSON: &str = "{\"id\":1,\"email\":\"a@b.co\"}\n{\"email\":\"a,\\\"b\"}\n{}\n";

    #[test]
    fn rows_keep_their_format_or_get_another_one() {
        check(
            CSV,
            Some(Format::Csv),
            "id;e-mail;reason;mailprobe_deliverable;mailprobe_reason\n1;a@b.co;\"x;\"\"y\";true;mailbox_exists\n2;none;z;false;invalid_syntax\n",
        );
        check(
            CSV,
            Some(Format::Jsonl),
            "{\"id\":\"1\",\"e-mail\":\"a@b.co\",\"reason\":\"x;\\\"y\",\"mailprobe_deliverable\":true,\"mailprobe_reason\":\"mailbox_exists\"}\n\
             {\"id\":\"2\",\"e-mail\":\"none\",\"reason\":\"z\",\"mailprobe_deliverable\":false,\"mailprobe_reason\":\"invalid_syntax\"}\n",
        );
        check(
            JSON,
            None,
            "{\"id\":1,\"email\":\"a@b.co\",\"deliverable\":true,\"reason\":\"mailbox_exists\"}\n\
             {\"email\":\"a,\\\"b\",\"deliverable\":false,\"reason\":\"invalid_syntax\"}\n\
             {\"deliverable\":false,\"reason\":\"invalid_syntax\"}\n",
        );
        check(
            JSON,
            Some(Format::Csv),
            "email,deliverable,reason\na@b.co,true,mailbox_exists\n\"a,\"\"b\",false,invalid_syntax\n,false,invalid_syntax\n",
        );
        check("a@b.co\nnone\n", None, "a@b.co,true,mailbox_exists\nnone,false,invalid_syntax\n");
        check(
            "a@b.co\n",
            Some(Format::Jsonl),
            "{\"email\":\"a@b.co\",\"deliverable\":true,\"reason\":\"mailbox_exists\"}\n",
        );
        let results = [ResultColumn::Rule, ResultColumn::ReplyCode];
        let json = "{\"email\":\"a@b.co\",\"deliverable\":true,\"reason\":\"mailbox_exists\",\"rule\":\"unknown_user\",\"reply_code\":550}\n\
            {\"email\":\"none\",\"deliverable\":false,\"reason\":\"invalid_syntax\",\"rule\":null,\"reply_code\":null}\n";
        let csv = "email,deliverable,reason,rule,reply_code\na@b.co,true,mailbox_exists,unknown_user,550\nnone,false,invalid_syntax,,\n";
        for (list, format, expected) in [
            ("email\na@b.co\nnone\n", None, csv),
            ("email\na@b.co\nnone\n", Some(Format::Jsonl), json),
            ("{\"email\":\"a@b.co\"}\n{\"email\":\"none\"}\n", None, json),
            ("{\"email\":\"a@b.co\"}\n{\"email\":\"none\"}\n", Some(Format::Csv), csv),
        ] {
            check_with(&results, list, format, expected);
        }
    }
}

//! A list with its verdicts, which is the content of a download: its rows, a spreadsheet of them, or a report about them.

mod report;
mod rows;
mod spreadsheet;

use crate::contents::{Contents, SourceError};
use api::Reason;
use lists::{Class, Format, ResultColumn, RowWriter};
use report::ReportMaker;
pub use report::ReportRequest;
use rows::{AnsweredRows, NextRow};
use spreadsheet::Spreadsheet;
use store::List;

/// Bytes per piece: less than a millisecond of work.
const PIECE_BYTES: usize = 32 * 1024;

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFormat {
    /// The format of the list; plain text becomes CSV without a header.
    Own,
    /// CSV.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// A spreadsheet (xlsx). All cells are texts.
    Xlsx,
}

/// The rows of a list that a download has, and their format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The format.
    pub format: ResultFormat,
    /// The classes of verdicts; none stands for all rows.
    pub classes: Vec<Class>,
    /// Whether each row has the evidence of its verdict, too.
    pub evidence: bool,
}

/// The columns of the evidence.
const EVIDENCE: &[ResultColumn] = &[
    ResultColumn::Rule,
    ResultColumn::Scope,
    ResultColumn::ReplyCode,
    ResultColumn::EnhancedCode,
    ResultColumn::CheckedAt,
];

impl Selection {
    /// All rows in the format of the list.
    pub const ALL: Selection = Selection { format: ResultFormat::Own, classes: Vec::new(), evidence: false };

    /// The name of a file with these rows, from the name of the list: `customers.unknown.csv`, or `customers.results.csv` for all rows.
    /// It has only letters and digits of ASCII, dots, dashes and underscores, so it needs no encoding (RFC 6266 4.3).
    pub fn file_name(&self, list: &str, ending: &str) -> String {
        let classes: Vec<&str> = self.classes.iter().map(|class| class.as_str()).collect();
        let rows = if classes.is_empty() { "results".to_owned() } else { classes.join("-") };
        format!("{}.{rows}.{ending}", file_stem(list))
    }

    fn has(&self, reason: Reason) -> bool {
        self.classes.is_empty() || self.classes.contains(&Class::of(reason))
    }
}

/// The endings that a name loses: compression first, then the format.
const ENDINGS: [&[&str]; 2] =
    [&[".gz", ".zst"], &[".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".xlsx", ".ods"]];

/// Most characters of the name of a list in the name of a file.
const STEM_CHARS_MAX: usize = 60;

/// The name of a list without its endings, in the characters of file names; `list` if nothing is left.
fn file_stem(name: &str) -> String {
    let mut name = name;
    for endings in ENDINGS {
        let ends = |ending: &&&str| {
            let at = name.len().checked_sub(ending.len());
            at.and_then(|at| name.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
        };
        if let Some(ending) = endings.iter().find(ends) {
            name = &name[..name.len() - ending.len()];
        }
    }
    let mut stem = String::new();
    for c in name.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => stem.push(c),
            _ if stem.ends_with('-') => {}
            _ => stem.push('-'),
        }
    }
    let stem: String = stem.trim_matches(['.', '-']).chars().take(STEM_CHARS_MAX).collect();
    if stem.is_empty() { "list".to_owned() } else { stem }
}

/// What a download contains.
pub enum Wanted {
    /// Rows of the list.
    Rows(Selection),
    /// The report about the list, as HTML.
    Report(ReportRequest),
}

/// A list with its verdicts, piece by piece. A piece can be empty. After an error there are no more pieces.
pub struct Results {
    /// The type of the content, for `Content-Type`.
    pub content_type: String,
    /// The ending of a file with this content.
    pub ending: &'static str,
    content: Content,
    ended: bool,
}

/// Makes the pieces.
enum Content {
    Rows(Box<RowMaker>),
    Spreadsheet(Box<Spreadsheet>),
    Report(Box<ReportMaker>),
}

impl Results {
    /// Opens a list after its check; `None` while a spreadsheet is converted: try again later.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(crate) fn open(
        contents: &Contents,
        list: &List,
        wanted: &Wanted,
    ) -> Result<Option<Results>, SourceError> {
        let columns = if matches!(wanted, Wanted::Rows(rows) if rows.evidence) { EVIDENCE } else { &[] };
        let Some(rows) = AnsweredRows::open(contents, list, columns)? else { return Ok(None) };
        let (content_type, ending, content) = match wanted {
            Wanted::Report(request) => {
                let content = Content::Report(Box::new(ReportMaker::new(rows, request.clone())));
                ("text/html; charset=utf-8".to_owned(), "html", content)
            }
            Wanted::Rows(selection) if selection.format == ResultFormat::Xlsx => {
                let content = Content::Spreadsheet(Box::new(Spreadsheet::new(rows, selection.clone())?));
                (
                    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet".to_owned(),
                    "xlsx",
                    content,
                )
            }
            Wanted::Rows(selection) => {
                let maker = RowMaker::new(rows, selection.clone());
                let (content_type, ending) = maker.content();
                (content_type, ending, Content::Rows(Box::new(maker)))
            }
        };
        Ok(Some(Results { content_type, ending, content, ended: false }))
    }
}

impl Iterator for Results {
    type Item = Result<Vec<u8>, String>;

    fn next(&mut self) -> Option<Result<Vec<u8>, String>> {
        if self.ended {
            return None;
        }
        let piece = match &mut self.content {
            Content::Rows(maker) => maker.piece(),
            Content::Spreadsheet(maker) => maker.piece(),
            Content::Report(maker) => maker.piece(),
        };
        let (piece, is_last) = match piece {
            Ok(piece) => (Ok(piece.bytes), piece.is_last),
            Err(error) => (Err(error), true),
        };
        self.ended = is_last;
        Some(piece)
    }
}

/// A piece of a download.
struct Piece {
    bytes: Vec<u8>,
    is_last: bool,
}

/// Makes rows of text.
struct RowMaker {
    rows: AnsweredRows,
    selection: Selection,
    format: Format,
    writer: RowWriter,
    head: Option<Vec<u8>>,
}

impl RowMaker {
    fn new(rows: AnsweredRows, selection: Selection) -> RowMaker {
        let wanted = match selection.format {
            ResultFormat::Csv => Some(Format::Csv),
            ResultFormat::Jsonl => Some(Format::Jsonl),
            ResultFormat::Own | ResultFormat::Xlsx => None,
        };
        let writer = RowWriter::new(&rows.source, wanted);
        let head = Some(writer.head(&rows.source));
        let format = wanted.unwrap_or(rows.source.shape().format);
        RowMaker { rows, selection, format, writer, head }
    }

    /// The type of the content, and the ending of its file. The encoding is that of the list, and UTF-8 for another format.
    fn content(&self) -> (String, &'static str) {
        let shape = self.rows.source.shape();
        let encoding = match self.format == shape.format {
            true => shape.encoding.name().to_ascii_lowercase(),
            false => "utf-8".to_owned(),
        };
        match self.format {
            Format::Jsonl => ("application/x-ndjson".to_owned(), "jsonl"),
            Format::Csv | Format::Text => (format!("text/csv; charset={encoding}"), "csv"),
        }
    }

    fn piece(&mut self) -> Result<Piece, String> {
        let mut bytes = self.head.take().unwrap_or_default();
        let began = self.rows.source.worked();
        while bytes.len() < PIECE_BYTES && self.rows.goes_on(began) {
            match self.rows.next()? {
                NextRow::Row(reason) if self.selection.has(reason) => {
                    self.rows.write(&self.writer, reason, &mut bytes);
                }
                NextRow::Row(_) | NextRow::Unasked => {}
                NextRow::Later => break,
                NextRow::End => return Ok(Piece { bytes, is_last: true }),
            }
        }
        Ok(Piece { bytes, is_last: false })
    }
}

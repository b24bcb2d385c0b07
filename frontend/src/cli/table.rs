//! Tables and pairs for people. `--json` is for programs.

use serde::Serialize;
use std::io::{self, Write};

/// Writes columns under a heading. Each is as wide as its widest cell; two spaces separate them.
pub(super) fn write_table<const N: usize>(
    out: &mut dyn Write,
    heading: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let mut widths = heading.map(width);
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    write_row(out, &heading.map(str::to_owned), &widths)?;
    rows.iter().try_for_each(|row| write_row(out, row, &widths))
}

fn write_row<const N: usize>(out: &mut dyn Write, row: &[String; N], widths: &[usize; N]) -> io::Result<()> {
    let mut line = String::new();
    for (cell, &widest) in row.iter().zip(widths) {
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', widest + 2 - width(cell)));
    }
    writeln!(out, "{}", line.trim_end())
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// Writes names and values, one pair per line.
pub(super) fn write_pairs(out: &mut dyn Write, pairs: &[(&str, String)]) -> io::Result<()> {
    let widest = pairs.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    pairs.iter().try_for_each(|(name, value)| writeln!(out, "{name:widest$}  {value}"))
}

/// Writes one JSON value, indented.
pub(super) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut out = Vec::new();
        let rows = [["größer".to_owned(), "1".to_owned()], ["b".to_owned(), String::new()]];
        write_table(&mut out, ["A", "NUMBER"], &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A       NUMBER\ngrößer  1\nb\n");
    }

    #[test]
    fn pairs_line_up() {
        let mut out = Vec::new();
        write_pairs(&mut out, &[("id", "x".into()), ("longer", "y".into())]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "id      x\nlonger  y\n");
    }
}

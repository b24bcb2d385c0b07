//! Lists as other programs write them: encodings, separators, headers, ragged rows, and lists that were cleaned before.

use super::*;

/// The output of a list, and the rest of a run that was killed at each byte of it.
#[track_caller]
pub(super) fn check_bytes(name: &str, list: &[u8], expected: &[u8]) {
    let mut desk = desk(name, list);
    desk.run().unwrap();
    let output = std::fs::read(desk.path("out")).unwrap();
    assert_eq!(output, expected, "{}", String::from_utf8_lossy(&output));
    desk.args.resume = true;
    for unordered in [false, true] {
        desk.args.unordered = unordered;
        // The last cuts are within the last row.
        let (length, step) = (expected.len(), (expected.len() / 8).max(1));
        let cuts = (0..length).step_by(step).chain(length.saturating_sub(3)..=length);
        for cut in cuts {
            let summary = desk.resume_from(&expected[..cut]);
            let again = std::fs::read(desk.path("out")).unwrap();
            let sorted = |output: &[u8]| {
                let mut bytes = output.to_vec();
                bytes.sort_unstable();
                bytes
            };
            assert_eq!(sorted(&again), sorted(expected), "cut at {cut}, {unordered}");
            assert!(unordered || again == expected, "cut at {cut}");
            assert!(cut < expected.len() || summary.resumed == summary.total(), "{unordered}");
        }
    }
    (desk.args.resume, desk.args.unordered) = (false, false);
    desk.all_parts(3);
    std::fs::remove_file(desk.path("out")).unwrap();
    desk.join().unwrap();
    assert_eq!(desk.read("out"), expected, "joined parts");
}

fn utf_16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(unit).collect()
}

#[test]
fn the_output_has_the_encoding_of_the_input() {
    let list = "\u{feff}Name\tE-Mail\r\nMüller\tdeliverable@x.com\r\n\"Ċ\u{a0a}\nä\"\tnobody@x.com\r\n";
    let cleaned = "\u{feff}Name\tE-Mail\tdeliverable\treason\r\nMüller\tdeliverable@x.com\ttrue\tmailbox_exists\r\n\
                   \"Ċ\u{a0a}\nä\"\tnobody@x.com\tfalse\tmailbox_not_found\r\n";
    for unit in [u16::to_le_bytes, u16::to_be_bytes] {
        check_bytes("a.txt", &utf_16(list, unit), &utf_16(cleaned, unit));
        let (list, cleaned) = (list.trim_start_matches('\u{feff}'), cleaned.trim_start_matches('\u{feff}'));
        check_bytes("a.txt", &utf_16(list, unit), &utf_16(cleaned, unit));
    }
    check_bytes("a.txt", list.as_bytes(), cleaned.as_bytes());
    check_bytes(
        "a.csv",
        b"Name;E-Mail\r\nM\xfcller \x80;deliverable@x.de\r\n",
        b"Name;E-Mail;deliverable;reason\r\nM\xfcller \x80;deliverable@x.de;true;mailbox_exists\r\n",
    );
    check_bytes(
        "a.txt",
        &utf_16("\u{feff}deliverable@x.com\nnobody@x.com\n", u16::to_le_bytes),
        &utf_16(
            "\u{feff}deliverable@x.com,true,mailbox_exists\nnobody@x.com,false,mailbox_not_found\n",
            u16::to_le_bytes,
        ),
    );
    check_bytes(
        "a.jsonl",
        &utf_16("\u{feff}{\"email\":\"nobody@x.com\"}\n", u16::to_be_bytes),
        &utf_16(
            "\u{feff}{\"email\":\"nobody@x.com\",\"deliverable\":false,\"reason\":\"mailbox_not_found\"}\n",
            u16::to_be_bytes,
        ),
    );
}

#[test]
fn bytes_of_another_encoding_far_down_stay() {
    let mut list = String::from("email,name\n");
    let mut cleaned = String::from("email,name,deliverable,reason\n");
    for n in 0..4000 {
        list.push_str(&format!("deliverable@d{n}.com,x\n"));
        cleaned.push_str(&format!("deliverable@d{n}.com,x,true,mailbox_exists\n"));
    }
    let end = [b"M\xfcller <deliverable@x.com>,M\xfcller", &b"m\xfcller@x.com,\x80"[..]];
    let list = [list.as_bytes(), end[0], b"\n", end[1], b"\n"].concat();
    let verdicts = [&b",true,mailbox_exists\n"[..], b",false,invalid_syntax\n"];
    let cleaned = [cleaned.as_bytes(), end[0], verdicts[0], end[1], verdicts[1]].concat();
    let mut desk = desk("a.csv", &list);
    let summary = desk.run().unwrap();
    assert!(std::fs::read(desk.path("out")).unwrap() == cleaned);
    let said = summary.to_string();
    assert!(
        said.ends_with(
            "  2 rows are not valid in UTF-8; their bytes stay as they are (the first in row 4002)\n"
        ),
        "{said}"
    );
}

#[test]
fn verdicts_stay_in_their_columns() {
    let (mut list, mut cleaned) = rows(1200);
    list += "1,deliverable@x.com,more,\"a,b\",\n2,nobody@x.com,\n";
    cleaned +=
        "1,deliverable@x.com,true,mailbox_exists,more,\"a,b\",\n2,nobody@x.com,false,mailbox_not_found,\n";
    let mut desk = desk("a.csv", &list);
    let summary = desk.run().unwrap();
    assert_eq!(desk.output(), cleaned);
    let note = "  2 rows have more values than columns; these follow the verdict (the first in row 1202)\n";
    assert!(summary.to_string().ends_with(note));
    desk.args.resume = true;
    for unordered in [false, true] {
        desk.args.unordered = unordered;
        for end in (cleaned.len() - 120..=cleaned.len()).step_by(3) {
            desk.resume_from(&cleaned[..end]);
            assert!(sorted(&desk.output()) == sorted(&cleaned), "cut at {end}, {unordered}");
        }
    }
}

#[test]
fn an_open_quote_hides_no_rows() {
    let (list, _) = rows(4000);
    let mut desk = desk("a.csv", list + "1,\"a@x.com\n2,b@x.com\n");
    let said = desk.error();
    assert!(said.starts_with("a.csv: a quote in the row at line 4002 is not closed: close it, "), "{said}");
}

#[test]
fn each_column_of_addresses_has_its_verdicts() {
    let list =
        "id,work,home\n1,deliverable@x.com,nobody@x.com\n2,nobody@x.com,\n3,a@y.com,deliverable@x.com,more\n";
    let cleaned = "id,work,home,,deliverable,reason,work_deliverable,work_reason\n\
                   1,deliverable@x.com,nobody@x.com,,false,mailbox_not_found,true,mailbox_exists\n\
                   2,nobody@x.com,,,false,invalid_syntax,false,mailbox_not_found\n\
                   3,a@y.com,deliverable@x.com,more,true,mailbox_exists,false,mailbox_not_found\n";
    let mut desk = desk("a.csv", list);
    desk.args.column = vec!["home".into(), "work".into()];
    desk.run().unwrap();
    assert_eq!(desk.output(), cleaned);
    desk.args.resume = true;
    for end in 0..=cleaned.len() {
        desk.resume_from(&cleaned[..end]);
        assert_eq!(desk.output(), cleaned, "cut at {end}");
    }
    desk.args.resume = false;
    desk.all_parts(2);
    std::fs::remove_file(desk.path("out")).unwrap();
    desk.join().unwrap();
    assert_eq!(desk.output(), cleaned, "joined parts");
    desk.args.unordered = true;
    assert!(desk.error().starts_with("--unordered works with one --column only"));
}

#[test]
fn a_list_that_was_cleaned_before_has_one_verdict() {
    for (name, list) in [
        ("a.csv", "email,n\ndeliverable@x.com,1\nnobody@x.com,2\n"),
        ("a.csv", "sep=;\nemail;reason\ndeliverable@x.com;1\n"),
        ("a.txt", "deliverable@x.com\nnobody@x.com\n"),
        ("a.csv", "deliverable@x.com,x\nnobody@x.com,y,z\n"),
        ("a.jsonl", "{\"email\":\"deliverable@x.com\",\"reason\":7}\n"),
        ("a.csv", "Title\nn;email;x\n1;deliverable@x.com;\n"),
    ] {
        let mut desk = desk(name, list);
        desk.run().unwrap();
        let cleaned = desk.output();
        let again = if name == "a.jsonl" { "again.jsonl" } else { "again.csv" };
        let earlier = cleaned.replace("true", "false").replace("mailbox_exists", "catch_all");
        std::fs::write(desk.path(again), earlier).unwrap();
        desk.args.input = desk.path(again);
        desk.run().unwrap();
        assert_eq!(desk.output(), cleaned, "{list}");
    }
}

#[test]
fn the_summary_says_how_the_list_was_read() {
    let mut desk = desk(
        "a.txt",
        b"Kunde|E-Mail|Ort\n1|deliverable@x.com; nobody@x.com|K\xf6ln\n\n2|nobody@x.com|M\xfcnchen\n",
    );
    desk.args.summary = Some(desk.path("summary.json"));
    let said = desk.run().unwrap().to_string();
    assert!(
        said.ends_with(
            "\nread as CSV, separated by `|`, in windows-1252, addresses in column 2 (E-Mail), header in row 1\n  \
             1 empty line was left out\n  \
             1 cell has several addresses; only the first one is checked (row 2)\n"
        ),
        "{said}"
    );
    let json = desk.json("summary.json");
    assert_eq!(
        json["input"],
        serde_json::json!({
            "description": "CSV, separated by `|`, in windows-1252, addresses in column 2 (E-Mail), header in row 1",
            "format": "csv", "encoding": "windows-1252", "separator": "|", "quotes": "doubled", "columns": [2],
            "header_row": 1, "undecoded_rows": 0, "cells_with_more": 1, "long_rows": 0, "nested_values": 0, "empty_lines": 1
        })
    );
}

#[test]
fn a_spreadsheet_becomes_csv() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lists/tests/files");
    for name in ["several-sheets.xlsx", "several-sheets.ods"] {
        let list = std::fs::read(files.join(name)).unwrap();
        let output = "\u{feff}Customer report,,,,,\r\nas of 2024,,,,,\r\nId,Customer,Contact,Sum,deliverable,reason\r\n\
                      1,Example Ltd,ann@example.com,SUM1,false,mailbox_not_found\r\n\
                      2,Sample AG,mailto:bob@example.org,SUM2,false,mailbox_not_found\r\n\
                      ,after blank rows,cem@example.com,,false,mailbox_not_found\r\n";
        // openpyxl writes formulas without their values.
        let sums = if name.ends_with("xlsx") { ["", ""] } else { ["2", "4"] };
        let output = output.replace("SUM1", sums[0]).replace("SUM2", sums[1]);
        check_bytes(name, &list, output.as_bytes());
    }
    let mut desk = desk("a.xlsx", std::fs::read(files.join("several-sheets.xlsx")).unwrap());
    let unread = |desk: &Desk| Job::open(desk.args.clone()).unwrap().warnings();
    let warning = "the spreadsheet has addresses in sheets that are not read: Versteckt (hidden); `--sheet Versteckt` reads one of them in another run";
    assert_eq!(unread(&desk), [warning]);
    desk.args.sheet = Some("Versteckt".into());
    let said = desk.run().unwrap().to_string();
    assert!(
        said.ends_with(
            "\nread as spreadsheet (xlsx), sheet Versteckt, addresses in column 1 (Email), header in row 1\n"
        ),
        "{said}"
    );
    assert_eq!(unread(&desk), [""; 0], "the user has chosen");
    desk.args.sheet = Some("Other".into());
    assert_eq!(
        desk.error(),
        "a.xlsx cannot be read: there is no sheet `Other`: it has Leer, Versteckt, Notes, Contacts"
    );
    assert_eq!(desk.run().unwrap_err().exit, 2);
    let mut desk = self::desk("a.csv", "email\na@b.co\n");
    desk.args.sheet = Some("Other".into());
    assert_eq!(desk.error(), "a.csv is no spreadsheet: omit the name of the sheet");
}

use super::*;

fn sample(text: &str) -> Sample {
    let (header, text) = match text.split_once(": ") {
        Some(("header", text)) => (Some(true), text),
        Some(("no header", text)) => (Some(false), text),
        _ => (None, text),
    };
    let records = text.lines().map(|line| ByteRecord::from(line.split(',').collect::<Vec<_>>())).collect();
    Sample { records, encoding: Encoding::utf_8(false), header }
}

/// All that is found in a list, as `testdata/columns.txt` shows it.
fn shown(sample: &Sample, wanted: &[String]) -> String {
    let columns = match find(sample, wanted, &[]) {
        Ok(columns) => columns,
        Err(error) => return format!("{error:?}"),
    };
    let joined = |words: Vec<String>| words.join("+");
    let numbers = |columns: &[usize]| joined(columns.iter().map(usize::to_string).collect());
    let known = columns.earlier_verdicts.iter().any(Option::is_some);
    let verdicts = columns
        .earlier_verdicts
        .iter()
        .filter(|_| known)
        .map(|it| it.as_ref().map_or("none".to_owned(), |it| it.verdict.to_string()));
    let reasons = columns.verdicts.iter().map(|names| String::from_utf8(names.reason.clone()).unwrap());
    let left = left_out(sample, &columns).into_iter();
    let parts = [
        ("titles", if columns.titles == 0 { String::new() } else { columns.titles.to_string() }),
        ("earlier", numbers(&columns.earlier)),
        ("reasons", joined(reasons.collect())),
        ("verdicts", joined(verdicts.collect())),
        ("others", joined(columns.other_verdicts.clone())),
        ("left", joined(left.map(|it| format!("{}:{}/{}", it.name, it.rows, it.looked_at)).collect())),
    ];
    let mut shown = numbers(&columns.addresses) + if columns.has_header { " header" } else { "" };
    for (name, value) in parts
        .iter()
        .filter(|(name, value)| !value.is_empty() && (*name, value.as_str()) != ("reasons", "reason"))
    {
        shown += &format!(" {name}={value}");
    }
    shown
}

#[test]
fn columns_are_found_as_the_table_says() {
    let (mut title, mut list) = ("", String::new());
    let lines = include_str!("../../testdata/columns.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("= ") {
            title = name;
        } else if let Some(row) = line.strip_prefix("    ") {
            let (chosen, expected) = row.split_once(" -> ").unwrap();
            let wanted: Vec<String> =
                chosen.split('+').filter(|name| *name != "-").map(str::to_owned).collect();
            assert_eq!(shown(&sample(&list), &wanted), expected, "{title}: {list} with {chosen}");
        } else {
            list = line.replace("\\n", "\n");
        }
    }
}

#[test]
fn an_empty_list_is_one() {
    let empty = sample("");
    assert_eq!(find(&empty, &[], &[]), Ok(Columns::single()));
}

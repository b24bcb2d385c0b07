//! The parts of a list, and their join. The models are the output and the submissions of one run without parts.

use super::*;
use fastrand::Rng;
use std::collections::BTreeMap;

/// Submissions by address.
fn submitted(checker: &Fake) -> BTreeMap<String, u32> {
    checker.submitted.iter().map(|(address, times)| (address.clone(), *times)).collect()
}

fn pick<'a>(random: &mut Rng, from: &[&'a str]) -> &'a str {
    from[random.usize(..from.len())]
}

const LOCALS: &[&str] =
    &["deliverable", "Deliverable", "\"deliverable\"", "nobody", "later", "a", "b", "\"a b\"", "c.d"];
const DOMAINS: &[&str] = &[
    "x.com",
    "X.COM",
    "y.example",
    "bücher.example",
    "xn--bcher-kva.example",
    "gmail.com",
    "Gmail.com",
    "web.de",
];
const NO_ADDRESSES: &[&str] = &["", "nonsense", "@", "a@", "a@b", "1@2@", " "];
const NOTES: &[&str] = &["", "note", "two\nlines", "say \"hi\"", ",;\t", "\r\n", "m\u{fc}", "\n\n"];

/// A column of addresses: most of them several times.
fn value(random: &mut Rng) -> String {
    match random.u8(0..10) {
        0..2 => pick(random, NO_ADDRESSES).to_owned(),
        2 => format!(" {}@{} ", pick(random, LOCALS), pick(random, DOMAINS)),
        3 => format!("user{}@gmail.com", random.u8(0..5)),
        _ => format!("{}@{}", pick(random, LOCALS), pick(random, DOMAINS)),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A list of random rows. The name determines its format, and the column of addresses is given if there is no header.
struct RandomList {
    name: &'static str,
    column: Option<&'static str>,
    bytes: Vec<u8>,
}

fn random_list(random: &mut Rng) -> RandomList {
    let (name, column) =
        [("list.csv", None), ("list.csv", Some("2")), ("list.jsonl", None), ("list.txt", None)]
            [random.usize(..4)];
    let (end, delimiter) = (pick(random, &["\n", "\r\n"]), pick(random, &[",", ";", "\t"]));
    let rows = random.usize(0..30);
    let mut lines: Vec<String> = Vec::new();
    if name == "list.csv" && column.is_none() {
        lines.push(["n", "email", "note"].join(delimiter));
    }
    for n in 0..rows {
        let (value, note) = (value(random), pick(random, NOTES));
        lines.push(match name {
            "list.csv" if n > 0 && random.u8(0..8) == 0 => {
                pick(random, &["1", "1;2", ",,,,", ";;;;;"]).to_owned()
            }
            "list.csv" => {
                [&n.to_string(), &quoted(&value), &quoted(note)].map(String::as_str).join(delimiter)
            }
            "list.jsonl" if random.u8(0..100) == 0 => "{\"email\":".to_owned(),
            "list.jsonl" => serde_json::json!({ "n": n, "email": value, "note": note }).to_string(),
            _ => value,
        });
        if random.u8(0..6) == 0 {
            lines.push(pick(random, &["", " "]).replace(' ', if name == "list.csv" { "" } else { " " }));
        }
    }
    let mut text = if random.bool() { "\u{feff}".to_owned() } else { String::new() };
    text += &lines.join(end);
    text += if random.bool() { end } else { "" };
    RandomList { name, column, bytes: packed(random, text.as_bytes()) }
}

/// The bytes as they are, or compressed.
fn packed(random: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    match random.u8(0..4) {
        0 => zstd::encode_all(bytes, 1).unwrap(),
        1 => {
            let mut out = Vec::new();
            flate2::read::GzEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut out).unwrap();
            out
        }
        _ => bytes.to_vec(),
    }
}

/// Compares the parts of a list, and their join, with one run.
fn compare(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let list = random_list(&mut random);
    let mut desk = desk(list.name, &list.bytes);
    desk.args.column = list.column.map(Into::into).into_iter().collect();
    desk.args.compress = [None, Some(Compression::Gzip), Some(Compression::Zstd)][random.usize(..3)];
    desk.checker.retry_after = Duration::from_millis(1);
    let whole = match desk.run() {
        Ok(whole) => whole,
        Err(error) => {
            // An unreadable list is unreadable for each part.
            let why = |error: CleanError| error.message.split(';').next().map(str::to_owned);
            assert_eq!(why(desk.part(0, 2).unwrap_err()), why(error), "seed {seed}");
            return;
        }
    };
    let (expected, asked) = (desk.read("out"), submitted(&desk.checker));
    let count = [1, 2, 3, 5, 16][random.usize(..5)];
    let (mut asked_by_parts, mut rows) = (BTreeMap::new(), 0);
    for index in 0..count {
        let summary = desk.part(index, count).unwrap();
        rows += summary.total();
        for (address, times) in submitted(&desk.checker) {
            assert_eq!(asked_by_parts.insert(address, times), None, "seed {seed}: asked by two parts");
        }
        interrupt(&mut desk, &mut random, (index, count), &summary, seed);
    }
    assert_eq!((asked_by_parts, rows), (asked, whole.total()), "seed {seed}");

    std::fs::remove_file(desk.path("out")).unwrap();
    let joined = desk.join().unwrap();
    assert_eq!(desk.read("out"), expected, "seed {seed}");
    assert_eq!(joined.reasons, whole.reasons, "seed {seed}");

    let plain = unpacked(&expected);
    std::fs::remove_file(desk.path("out")).unwrap();
    desk.write("out.partial", &plain[..random.usize(..=plain.len())]);
    desk.args.resume = true;
    desk.join().unwrap();
    assert_eq!(desk.read("out"), expected, "seed {seed}: a killed join");
    assert!(!desk.path("out.partial").exists() && !desk.path("out.state").exists());
}

/// Kills the run of a part at a random byte of its output, and resumes it; then resumes it again.
fn interrupt(desk: &mut Desk, random: &mut Rng, (index, count): (u32, u32), summary: &Summary, seed: u64) {
    let name = format!("out.part-{index}-of-{count}");
    let complete = desk.read(&name);
    let plain = unpacked(&complete);
    std::fs::remove_file(desk.path(&name)).unwrap();
    desk.write(&format!("{name}.partial"), &plain[..random.usize(..=plain.len())]);
    desk.args.resume = true;
    let resumed = desk.part(index, count).unwrap();
    assert_eq!(desk.read(&name), complete, "seed {seed}");
    assert_eq!(resumed.reasons, summary.reasons, "seed {seed}");

    let again = desk.part(index, count).unwrap();
    assert_eq!(desk.read(&name), complete, "seed {seed}");
    assert_eq!((again.reasons, again.resumed), (summary.reasons, summary.total()), "seed {seed}");
    assert_eq!(desk.checker.submitted.len(), 0, "seed {seed}: a complete part asks nobody");
    assert!(!desk.path(&format!("{name}.partial")).exists() && !desk.path(&format!("{name}.state")).exists());
    desk.args.resume = false;
}

#[test]
fn the_join_of_parts_is_the_output_of_one_run() {
    // A larger number finds more: `MAILPROBE_SEEDS=100000 cargo test -p clean parts`.
    let seeds = std::env::var("MAILPROBE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    // It computes for longer than all other tests together.
    std::thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || (first..seeds).step_by(4).for_each(compare));
        }
    });
}

#[test]
fn the_file_of_a_part_has_a_title_and_then_its_list() {
    let list = "\u{feff}email;n\r\na@x.com;1\r\nb@y.com;2\r\nnonsense;3\r\n";
    let mut desk = desk("list.csv", list);
    desk.part(0, 1).unwrap();
    assert_eq!(
        String::from_utf8(desk.read("out.part-0-of-1")).unwrap(),
        "{\"part_rule\":3,\"part\":0,\"parts\":1,\"fast\":false,\"format\":\"csv\",\"column\":\"1\",\"header_row\":1,\"list_bytes\":46}\n\
         \u{feff}email;n;deliverable;reason\r\na@x.com;1;false;mailbox_not_found\r\n\
         b@y.com;2;false;mailbox_not_found\r\nnonsense;3;false;invalid_syntax\r\n"
    );
}

#[test]
fn a_compressed_part_has_the_name_of_its_output() {
    let (list, cleaned) = rows(200);
    let mut desk = desk("list.csv", list);
    desk.args.output = Some(desk.path("out.csv.zst"));
    desk.all_parts(3);
    assert!(desk.read("out.csv.zst.part-1-of-3").starts_with(b"\x28\xb5\x2f\xfd"));
    desk.join().unwrap();
    assert_eq!(unpacked(&desk.read("out.csv.zst")), cleaned.as_bytes());
}

/// Three parts of this list are not empty, with addresses and without.
const LIST: &str = "n,email,work\n0,a@x.com,a@y.com\n1,nonsense,\n2,deliverable@a.com,c@z.com\n3,b@gmail.com,d@x.com\n\
                    4,c@gmail.com,\n5,a@x.com,a@y.com\n6,,\n7,nonsense,\n";

fn three_parts() -> Desk {
    let mut desk = desk("list.csv", LIST);
    desk.all_parts(3);
    desk
}

/// The rows of `parts.txt`, which explains its form.
#[test]
fn parts_that_do_not_belong_together_or_to_the_run_are_refused() {
    for [first, expected] in text_rows(include_str!("../../testdata/parts.txt")) {
        let (command, changes) = first.split_once(": ").unwrap();
        let mut desk = three_parts();
        for change in changes.split("; ") {
            let path = |name: &str| desk.path(name);
            let text = |name: &str| String::from_utf8(desk.read(name)).unwrap();
            match change.split(' ').collect::<Vec<_>>()[..] {
                ["remove", name] => std::fs::remove_file(path(name)).unwrap(),
                ["rename", from, to] => std::fs::rename(path(from), path(to)).unwrap(),
                ["copy", from, to] => drop(std::fs::copy(path(from), path(to)).unwrap()),
                ["write", name, line] => desk.write(name, format!("{line}\n")),
                ["append", name, line] => desk.write(name, format!("{}{line}\n", text(name))),
                ["cut", name] => desk.write(name, &text(name)[..text(name).len() - 1]),
                ["replace", name, old, new] => desk.write(name, text(name).replace(old, new)),
                ["--fast"] => desk.args.fast = true,
                ["--no-header"] => desk.args.no_header = true,
                ["--column", name] => desk.args.column = vec![name.into()],
                ["--part", part] => {
                    let (index, count) = part.split_once('/').unwrap();
                    desk.part(index.parse().unwrap(), count.parse().unwrap()).unwrap();
                }
                ref other => panic!("{other:?}"),
            }
        }
        desk.checker = fake();
        let error = match command {
            "join" => desk.join(),
            _ => {
                desk.args.resume = true;
                desk.part(1, 3)
            }
        };
        let error = error.expect_err("an error").message;
        assert_eq!(error.replace(&format!("{}/", desk.folder.path().display()), ""), expected, "{first}");
        assert_eq!(desk.checker.submitted.len(), 0, "{first}");
        desk.nothing_written();
        assert!(!desk.path("out.state").exists(), "{first}");
    }
}

#[test]
fn a_join_writes_all_or_nothing() {
    let mut desk = three_parts();
    desk.write("out.partial", "my rows");
    let error = desk.join().unwrap_err().message;
    assert!(
        error.ends_with(
            "/out.partial is left from an earlier run, and --force does not replace it: delete it to start again, or continue with --resume"
        ),
        "{error}"
    );
    desk.args.resume = true;
    let error = desk.join().unwrap_err().message;
    assert!(error.contains("/out.partial does not fit this list or these options: "), "{error}");
    assert_eq!(desk.read("out.partial"), b"my rows");

    // The rows of a run without parts, with another verdict.
    desk.write("out.partial", "n,email,work,deliverable,reason\n0,a@x.com,a@y.com,true,mailbox_exists\n1,no");
    let error = desk.join().unwrap_err().message;
    assert!(error.contains("/out.partial does not fit this list or these options: "), "{error}");
    assert!(desk.read("out.partial").ends_with(b"1,no"));
    std::fs::remove_file(desk.path("out.partial")).unwrap();
    desk.join().unwrap();
    assert_eq!(desk.read("out").iter().filter(|&&byte| byte == b'\n').count(), 9);
}

#[test]
fn parts_need_a_file_and_never_overwrite_the_input() {
    let mut desk = three_parts();
    desk.args.output = None;
    desk.args.part = Some("1/3".parse().unwrap());
    assert!(desk.error().starts_with("--part needs an output file"));
    desk.args.part = None;
    assert_eq!(desk.join().unwrap_err().message, "--join needs an output file: name it with -o");
    desk.args.output = Some(desk.args.input.clone());
    desk.args.part = Some("1/3".parse().unwrap());
    assert_eq!(desk.error(), "list.csv would overwrite the input: name another file with -o");
    desk.args.input = desk.path("out.part-1-of-3");
    desk.args.output = Some(desk.path("out"));
    assert_eq!(desk.error(), "out.part-1-of-3 would overwrite the input: name another file with -o");
}

#[test]
fn summaries_say_which_rows_they_count() {
    let mut desk = three_parts();
    desk.args.summary = Some(desk.path("summary.json"));
    desk.part(2, 3).unwrap();
    let part = desk.json("summary.json");
    assert_eq!((&part["part"], &part["parts"]), (&2.into(), &3.into()));
    assert!(part["duplicates"].is_u64());
    desk.join().unwrap();
    let whole = desk.json("summary.json");
    assert_eq!((&whole["rows"], &whole["parts"], whole.get("part")), (&8.into(), &3.into(), None));
    assert_eq!(whole["domains"][0]["rows"], 2);
    assert!(["duplicates", "retries", "gave_up", "left"].iter().all(|key| whole.get(key).is_none()));
}

#[test]
fn a_join_starts_no_engine() {
    let mut desk = three_parts();
    desk.args.join = true;
    let mut errors = Vec::new();
    let start = |_: &OutputArgs| -> Result<Fake, CleanError> { panic!("an engine") };
    clean(desk.args.clone(), start, &mut errors).unwrap();
    assert!(String::from_utf8(errors).unwrap().starts_with("8 rows in "));
}

//! Lists of any length: duplicates, waiting rows, full memory, compressed files.

use super::*;

#[test]
fn a_slow_row_stops_nobody_and_the_order_stays() {
    // Without memory, all waiting rows are in the state; with memory, some of them.
    for memory in [0, 4] {
        let (list, cleaned) = rows(30_000);
        let mut desk = desk("list.csv", list);
        desk.args.memory = memory;
        desk.checker.capacity = 500;
        desk.checker.held = Some("deliverable@d0.com");
        let summary = desk.run().unwrap();
        assert_eq!(summary.total(), 30_000);
        assert_eq!((desk.checker.most, desk.checker.before_held), (500, 20_000));
        assert!(desk.output() == cleaned, "every row, in its place");
    }
}

#[test]
fn rows_that_are_put_off_stop_nobody() {
    let (list, cleaned) = rows(3000);
    let list = list.replacen("deliverable@d0.com", "later@d0.com", 1);
    let cleaned = cleaned.replacen("deliverable@d0.com", "later@d0.com", 1);
    for unordered in [false, true] {
        let mut desk = desk("list.csv", &list);
        desk.args.unordered = unordered;
        desk.checker.retry_after = Duration::from_millis(400);
        let summary = desk.run().unwrap();
        assert_eq!((summary.retries, summary.left.rows()), (1, 0));
        let output = desk.output();
        assert_eq!(sorted(&output), sorted(&cleaned));
        assert_eq!(output == cleaned, !unordered, "delayed rows come last");
    }
}

#[test]
fn max_wait_bounds_the_whole_wait() {
    let mut desk = desk("list.txt", "never@x.com\nlater@y.com\n");
    desk.checker.retry_after = Duration::from_millis(700);
    desk.args.max_wait = 2;
    let summary = desk.run().unwrap();
    assert_eq!(desk.checker.submitted["never@x.com"], 4, "after 0.7, 1.4 and 2 s");
    assert_eq!((summary.retries, summary.left.rows()), (4, 1));
    assert_eq!(summary.left.wait(), Duration::from_millis(700));

    let mut desk = super::desk("list.txt", "never@x.com\nlater@y.com\n");
    desk.args.max_wait = 0;
    let summary = desk.run().unwrap();
    assert_eq!((summary.retries, summary.left.rows()), (0, 2));
}

#[test]
fn duplicates_are_asked_about_once() {
    let list = "Deliverable@x.com\nnobody@x.com\nnonsense\ndeliverable@X.com\nnonsense\nnever@x.com\n\
                nobody@x.com\n\"deliverable\"@x.com\nnever@x.com\n";
    let cleaned = "Deliverable@x.com,true,mailbox_exists\nnobody@x.com,false,mailbox_not_found\n\
                   nonsense,false,invalid_syntax\ndeliverable@X.com,true,mailbox_exists\n\
                   nonsense,false,invalid_syntax\nnever@x.com,false,unverifiable\n\
                   nobody@x.com,false,mailbox_not_found\n\"\"\"deliverable\"\"@x.com\",true,mailbox_exists\n\
                   never@x.com,false,unverifiable\n";
    for unordered in [false, true] {
        // The first one is in progress when the others are read.
        for held in [None, Some("Deliverable@x.com"), Some("never@x.com")] {
            let mut desk = desk("list.txt", list);
            desk.args.unordered = unordered;
            desk.checker.held = held;
            let summary = desk.run().unwrap();
            let output = desk.output();
            assert_eq!(sorted(&output), sorted(cleaned));
            assert!(unordered || output == cleaned, "{output}");
            assert_eq!((summary.duplicates, summary.total()), (4, 9));
            assert_eq!(desk.checker.submitted["nobody@x.com"], 1);
            assert_eq!(desk.checker.submitted.len(), 3);
        }
    }
}

#[test]
fn many_duplicates_all_over_the_list_are_found() {
    let mut list = String::from("n,email\n");
    let mut cleaned = String::from("n,email,deliverable,reason\n");
    for n in 0..20_000 {
        // Every address four times, far apart and next to each other.
        let (local, verdict) = if n % 5000 % 2 == 0 {
            ("deliverable", "true,mailbox_exists")
        } else {
            ("x", "false,mailbox_not_found")
        };
        list.push_str(&format!("{n},{local}@d{}.com\n", n % 5000));
        cleaned.push_str(&format!("{n},{local}@d{}.com,{verdict}\n", n % 5000));
    }
    for unordered in [false, true] {
        let mut desk = desk("list.csv", &list);
        desk.args.unordered = unordered;
        desk.checker.capacity = 300;
        let summary = desk.run().unwrap();
        assert_eq!((summary.duplicates, desk.checker.submitted.len()), (15_000, 5000));
        assert!(desk.checker.submitted.values().all(|&times| times == 1));
        assert_eq!(sorted(&desk.output()), sorted(&cleaned));
    }
}

#[test]
fn crowded_sites_get_their_rows_as_they_can_bear_them() {
    let mut list = String::new();
    for n in 0..3000 {
        // Most rows belong to one domain, and a few to many others.
        let domain = if n % 10 == 0 { format!("d{}.com", n % 200) } else { "large.com".into() };
        list.push_str(&format!("user-{n}@{domain}\n"));
    }
    for unordered in [false, true] {
        let mut desk = desk("list.txt", &list);
        desk.args.unordered = unordered;
        desk.checker.capacity = 200;
        desk.checker.crowd = Some(20);
        let summary = desk.run().unwrap();
        assert_eq!((summary.total(), summary.reasons.of(Reason::MailboxNotFound)), (3000, 3000));
        // Few rows are submitted in vain: those in progress when the site became full, and those that the clock tries.
        assert!(desk.checker.crowded > 0 && desk.checker.crowded < 1500, "{}", desk.checker.crowded);
    }
}

#[test]
fn out_of_order_rows_are_written_when_they_are_done() {
    let mut desk = desk("list.txt", "deliverable@x.com\na@x.com\nb@x.com\n");
    desk.args.unordered = true;
    desk.checker.held = Some("deliverable@x.com");
    desk.run().unwrap();
    assert!(desk.output().ends_with("deliverable@x.com,true,mailbox_exists\n"));
}

#[test]
fn duplicates_are_learned_again_when_resuming() {
    for unordered in [false, true] {
        let mut desk = desk("list.txt", "deliverable@x.com\nnobody@x.com\ndeliverable@x.com\n");
        desk.args.unordered = unordered;
        desk.args.resume = true;
        std::fs::write(desk.path("out.partial"), "deliverable@x.com,true,mailbox_exists\nnob").unwrap();
        let summary = desk.run().unwrap();
        assert_eq!((summary.resumed, summary.duplicates), (1, 1));
        assert_eq!(desk.checker.submitted.keys().collect::<Vec<_>>(), ["nobody@x.com"]);
    }
}

#[test]
fn a_resumed_run_counts_the_duplicates_of_the_whole_list() {
    let list = "deliverable@x.com\nDeliverable@x.com\nnobody@x.com\ndeliverable@x.com\nnobody@x.com\n";
    let mut whole = desk("list.txt", list);
    assert_eq!(whole.run().unwrap().duplicates, 3);
    let rows = std::fs::read_to_string(whole.path("out")).unwrap();
    for unordered in [false, true] {
        for kept in 0..=5 {
            let mut desk = desk("list.txt", list);
            (desk.args.unordered, desk.args.resume) = (unordered, true);
            let partial: String = rows.split_inclusive('\n').take(kept).collect();
            std::fs::write(desk.path("out.partial"), partial).unwrap();
            let summary = desk.run().unwrap();
            assert_eq!((summary.resumed, summary.duplicates), (kept as u64, 3), "{unordered}");
        }
    }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzEncoder::new(text.as_bytes(), flate2::Compression::fast()).read_to_end(&mut out).unwrap();
    out
}

#[test]
fn packed_lists_come_in_and_go_out() {
    let (list, cleaned) = rows(2000);
    // The content determines the compression of the input, not the name.
    let mut desk = desk("list.csv", gzip(&list));
    desk.args.output = Some(desk.path("out.csv.zst"));
    desk.run().unwrap();
    let packed = std::fs::read(desk.path("out.csv.zst")).unwrap();
    assert_eq!(zstd::decode_all(&packed[..]).unwrap(), cleaned.as_bytes());
    let left: Vec<_> = std::fs::read_dir(desk.folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "the input and the output");

    desk.args.input = desk.path("list.csv.zst");
    std::fs::write(&desk.args.input, zstd::encode_all(list.as_bytes(), 1).unwrap()).unwrap();
    desk.args.output = Some(desk.path("out"));
    desk.args.compress = Some(Compression::Gzip);
    desk.run().unwrap();
    assert_eq!(unpacked(&std::fs::read(desk.path("out")).unwrap()), cleaned.as_bytes());
}

#[test]
fn a_packed_output_can_be_gone_on_with() {
    let (list, cleaned) = rows(50);
    let mut desk = desk("list.csv", list);
    desk.args.output = Some(desk.path("out.gz"));
    desk.args.resume = true;
    for cut in [0, 5, 500, cleaned.len()] {
        // A kill during the compression leaves the complete partial file and an incomplete compressed file.
        std::fs::write(desk.path("out.gz.partial"), &cleaned[..cut]).unwrap();
        std::fs::write(desk.path("out.gz.packed"), "half").unwrap();
        desk.checker = fake();
        desk.run().unwrap();
        assert_eq!(unpacked(&std::fs::read(desk.path("out.gz")).unwrap()), cleaned.as_bytes());
        assert!(!desk.path("out.gz.partial").exists() && !desk.path("out.gz.packed").exists());
    }
}

#[test]
fn a_packed_list_that_is_cut_off_is_an_error() {
    let (list, _) = rows(20_000);
    let mut packed = gzip(&list);
    packed.truncate(packed.len() / 2);
    let mut desk = desk("list.csv.gz", packed);
    let said = desk.error();
    assert!(said.starts_with("list.csv.gz cannot be read at line "), "{said}");
    assert!(said.ends_with("continue with --resume"), "{said}");
}

#[test]
fn a_full_disk_is_told() {
    let mut desk = desk("list.csv", rows(5000).0);
    desk.args.output = Some("/dev/full".into());
    let said = desk.error();
    assert!(said.starts_with("/dev/full cannot be written: No space left on device"), "{said}");
}

#[test]
fn a_state_that_is_in_the_way_stays() {
    let mut desk = desk("list.csv", "email\nnobody@x.com\n");
    std::fs::write(desk.path("out.state"), "my own file").unwrap();
    assert_eq!(desk.error(), "out.state exists and belongs to no run: move it, or name another output");
    assert_eq!(std::fs::read_to_string(desk.path("out.state")).unwrap(), "my own file");
    assert!(!desk.path("out.partial").exists());
}

#[test]
fn the_summary_tells_of_domains() {
    let mut desk = desk("list.txt", "deliverable@a.com\nnobody@a.com\nnever@b.com\nnonsense\nnobody@A.com\n");
    desk.args.summary = Some(desk.path("summary.json"));
    desk.args.max_wait = 0;
    let said = desk.run().unwrap().to_string();
    assert!(
        said.contains(
            "\ndomains with the most rows:\n  a.com                                    3    60.0 %, 33.3 %"
        ),
        "{said}"
    );
    let json = desk.json("summary.json");
    assert_eq!(json["domains"][0]["rows"], 3);
    assert_eq!((json["rows"].as_u64(), json["duplicates"].as_u64()), (Some(5), Some(1)));
    assert_eq!(json["gave_up"]["rows"], 1);
}

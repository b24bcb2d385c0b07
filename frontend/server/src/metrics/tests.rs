//! The page has the syntax of the format, and the values of the counters.

use super::text::{Kind, Page};
use super::*;
use checks::counters::{Answered, CountedCheck, count};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A strict parser of the text format. It returns samples by name and labels.
///
/// Every sample belongs to the last declared family. Names are valid, and neither a family nor a sample occurs twice.
/// The buckets of a histogram increase up to its count.
fn parse(page: &str) -> HashMap<String, f64> {
    let mut samples = HashMap::new();
    let mut families = HashSet::new();
    let (mut helped, mut family, mut kind) = ("", "", "");
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && families.insert(name), "{line}");
            helped = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').unwrap();
            assert!(family == helped && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kind != "counter" || family.ends_with("_total"), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let mut of_name = name.chars();
            assert!(of_name.next().is_some_and(|c| c.is_ascii_alphabetic()), "{line}");
            assert!(of_name.all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
            let allowed: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line}");
            check_labels(&series[name.len()..]);
            let value: f64 = value.parse().unwrap();
            assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    samples
}

/// `{name="value",...}` with each name once, or nothing.
fn check_labels(labels: &str) {
    let Some(mut rest) = labels.strip_prefix('{') else {
        assert!(labels.is_empty(), "{labels}");
        return;
    };
    let mut names = BTreeSet::new();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{labels}");
        assert!(names.insert(name), "{labels}");
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = &after[end.unwrap() + 1..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => break assert_eq!(rest, "}", "{labels}"),
        }
    }
}

fn metrics() -> (tempfile::TempDir, Metrics) {
    use store::PlanTable;
    use store_redb::StoreOptions;
    let folder = tempfile::tempdir().unwrap();
    let (store, _) =
        store_redb::open(folder.path(), PlanTable::standard(), StoreOptions::default(), 1).unwrap();
    let figures = engine::Figures {
        under_way: 3,
        tickets_max: 16_384,
        sessions_max: 1000,
        shards: vec![
            engine::ShardFigures {
                waiting: 1,
                sessions: 2,
                queued: 4,
                answers: 5,
                busy: Duration::from_millis(2500),
                silent: Duration::from_millis(1500),
            };
            2
        ],
        sources: vec![engine::SourceFigures { name: "192.0.2.1".into(), rests: 2, resting: 1, down: false }],
        trouble: None,
    };
    let gauge = Box::new(move || figures.clone());
    (folder, Metrics::new(2, 100, store, gauge, || 7, 1_500))
}

#[test]
fn what_two_threads_counted_is_added_up() {
    let (_folder, metrics) = metrics();
    for (thread, status) in [(0, 200), (1, 200), (1, 402)] {
        let tally = metrics.tally(thread);
        let what = Answered { route: "/v1/verify", method: "GET", status };
        tally.answered(what, Duration::from_millis(3));
        tally.checked(CountedCheck { mode: "full", reason: "catch_all" });
        count(&tally.accepted);
    }
    count(&metrics.tally(0).ended);
    metrics.tally_of_batches().rows_waiting.store(2_900, Ordering::Relaxed);
    let samples = parse(&metrics.render());
    let check = |series: &str, expected: f64| {
        let found = samples.get(series);
        assert_eq!(found, Some(&expected), "{series} in {samples:#?}");
    };
    check("mailprobe_requests_total{route=\"/v1/verify\",method=\"GET\",status=\"200\"}", 2.0);
    check("mailprobe_requests_total{route=\"/v1/verify\",method=\"GET\",status=\"402\"}", 1.0);
    let latency = "mailprobe_request_duration_seconds";
    let route = "route=\"/v1/verify\",method=\"GET\"";
    check(&format!("{latency}_bucket{{{route},le=\"0.0025\"}}"), 0.0);
    check(&format!("{latency}_bucket{{{route},le=\"0.005\"}}"), 3.0);
    check(&format!("{latency}_bucket{{{route},le=\"+Inf\"}}"), 3.0);
    check(&format!("{latency}_count{{{route}}}"), 3.0);
    check(&format!("{latency}_sum{{{route}}}"), 0.009);
    check("mailprobe_checks_total{mode=\"full\",reason=\"catch_all\"}", 3.0);
    check("mailprobe_batch_rows_waiting", 2_900.0);
    check("mailprobe_connections_total", 3.0);
    check("mailprobe_connections_open", 2.0);
    check("mailprobe_engine_tickets", 3.0);
    check("mailprobe_engine_tickets_max", 16_384.0);
    check("mailprobe_engine_sessions_max", 1000.0);
    check("mailprobe_engine_shard_silent_seconds{shard=\"1\"}", 1.5);
    check("mailprobe_engine_shard_queue{shard=\"0\"}", 4.0);
    check("mailprobe_engine_shard_answers_total{shard=\"0\"}", 5.0);
    check("mailprobe_engine_shard_cpu_seconds_total{shard=\"1\"}", 2.5);
    check("mailprobe_store_writable", 1.0);
    check("mailprobe_store_rows{table=\"accounts\"}", 0.0);
    // The one write of an opening, which voids holds.
    check("mailprobe_store_group_writes_count", 1.0);
    check("mailprobe_log_lines_dropped_total", 7.0);
    check("process_start_time_seconds", 1.5);
    assert!(samples["mailprobe_store_folder_bytes"] > 0.0 && samples["process_open_fds"] > 2.0);
}

#[test]
fn label_values_are_escaped() {
    let mut page = Page::default();
    page.family("a_total", Kind::Counter, "Help.").sample(&[("x", "a\\b\"c\nd,}"), ("y", "")], 1);
    let page = page.finish();
    assert_eq!(
        page,
        "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"a\\\\b\\\"c\\nd,}\",y=\"\"} 1\n"
    );
    assert_eq!(parse(&page).len(), 1);
}

#[test]
#[should_panic(expected = "twice")]
fn the_reader_sees_duplicates() {
    parse("# HELP a A.\n# TYPE a gauge\na{b=\"1\"} 1\na{b=\"1\"} 2\n");
}

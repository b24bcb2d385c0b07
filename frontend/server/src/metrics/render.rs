//! From what was counted to the page.

use super::Metrics;
use super::process;
use super::text::{Kind, Page};
use checks::counters::{Counts, Tally};
use engine::SourceFigures;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Sizes, StoreFigures};

const MICROS: f64 = 1e6;

impl Metrics {
    /// The page as of now.
    pub fn render(&self) -> String {
        let mut page = Page::default();
        page.family("mailprobe_build_info", Kind::Gauge, "The version that runs; always 1.")
            .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.requests(&mut page);
        self.connections(&mut page);
        self.engine(&mut page);
        self.store(&mut page);
        self.process(&mut page);
        page.finish()
    }

    fn requests(&self, page: &mut Page) {
        let sum = self.sum();
        let mut family =
            page.family("mailprobe_requests_total", Kind::Counter, "Requests that were answered.");
        for (what, count) in &sum.requests {
            let status = what.status.to_string();
            family.sample(&[("route", what.route), ("method", what.method), ("status", &status)], count);
        }
        let mut family = page.family(
            "mailprobe_request_duration_seconds",
            Kind::Histogram,
            "From the head of a request to its answer.",
        );
        for ((route, method), latency) in &sum.latencies {
            family.histogram(&[("route", route), ("method", method)], latency, MICROS);
        }
        let mut family =
            page.family("mailprobe_checks_total", Kind::Counter, "Addresses that got a verdict.");
        for (what, count) in &sum.checks {
            family.sample(&[("mode", what.mode), ("reason", what.reason)], count);
        }
        self.over_budget(page);
    }

    fn over_budget(&self, page: &mut Page) {
        let help = "Checks that were put off because the recipient's site refused as many recipients as it may in an hour.";
        let mut family = page.family("mailprobe_over_budget_total", Kind::Counter, help);
        let count = |tally: &Arc<Tally>| tally.over_budget.load(Ordering::Relaxed);
        // The last tally is that of the thread that feeds batches.
        if let Some((batches, frontends)) = self.tallies.split_last() {
            family.sample(&[("mode", "full")], frontends.iter().map(count).sum::<u64>());
            family.sample(&[("mode", "batch")], count(batches));
        }
    }

    fn connections(&self, page: &mut Page) {
        let sum = |of: fn(&Tally) -> &AtomicU64| -> u64 {
            self.tallies.iter().map(|tally| of(tally).load(Ordering::Relaxed)).sum()
        };
        // Ended first: a connection that ends between the two looks is open for longer, not for less than nothing.
        let ended = sum(|tally| &tally.ended);
        let accepted = sum(|tally| &tally.accepted);
        page.counter("mailprobe_connections_total", "Connections that were accepted.", accepted);
        page.gauge(
            "mailprobe_connections_open",
            "Connections that are open.",
            accepted.saturating_sub(ended),
        );
        page.gauge("mailprobe_connections_max", "Most connections at once.", self.connections_max);
        let help = "Connections that the server closed by itself, by why.";
        let mut family = page.family("mailprobe_connections_closed_total", Kind::Counter, help);
        family.sample(&[("why", "peer_limit")], sum(|tally| &tally.refused));
        family.sample(&[("why", "gave_way")], sum(|tally| &tally.gave_way));
        family.sample(&[("why", "too_slow")], sum(|tally| &tally.too_slow));
    }

    fn engine(&self, page: &mut Page) {
        let figures = (self.engine)();
        page.gauge("mailprobe_engine_tickets", "Addresses under way in the engine.", figures.under_way);
        let shards: Vec<String> = (0..figures.shards.len()).map(|number| number.to_string()).collect();
        let help = "Messages that wait in a shard's inbox.";
        let mut family = page.family("mailprobe_engine_shard_inbox", Kind::Gauge, help);
        for (name, shard) in shards.iter().zip(&figures.shards) {
            family.sample(&[("shard", name)], shard.waiting);
        }
        let mut family = page.family(
            "mailprobe_engine_shard_sessions",
            Kind::Gauge,
            "SMTP sessions that a shard has open.",
        );
        for (name, shard) in shards.iter().zip(&figures.shards) {
            family.sample(&[("shard", name)], shard.sessions);
        }
        let help = "Addresses that wait on a shard for their turn at a site.";
        let mut family = page.family("mailprobe_engine_shard_queue", Kind::Gauge, help);
        for (name, shard) in shards.iter().zip(&figures.shards) {
            family.sample(&[("shard", name)], shard.queued);
        }
        let help = "Answers of mail servers to recipients that a shard has heard.";
        let mut family = page.family("mailprobe_engine_shard_answers_total", Kind::Counter, help);
        for (name, shard) in shards.iter().zip(&figures.shards) {
            family.sample(&[("shard", name)], shard.answers);
        }
        let help = "Processor time of a shard.";
        let mut family = page.family("mailprobe_engine_shard_cpu_seconds_total", Kind::Counter, help);
        for (name, shard) in shards.iter().zip(&figures.shards) {
            family.sample(&[("shard", name)], shard.busy.as_secs_f64());
        }
        let help = "Since a shard last said that it is alive.";
        let mut family = page.family("mailprobe_engine_shard_silent_seconds", Kind::Gauge, help);
        for (name, shard) in shards.iter().zip(&figures.shards) {
            family.sample(&[("shard", name)], shard.silent.as_secs_f64());
        }
        sources(page, &figures.sources);
    }

    fn store(&self, page: &mut Page) {
        let StoreFigures { waiting, commit_us, group, credits_spent, credits_granted } = self.store.figures();
        let writable = u8::from(self.store.health().is_ok());
        page.gauge("mailprobe_store_writable", "Whether the store takes writes: 1 or 0.", writable);
        page.gauge("mailprobe_store_queue", "Writes that wait for the store's writer.", waiting);
        page.family("mailprobe_store_commit_seconds", Kind::Histogram, "How long a group of writes takes.")
            .histogram(&[], &commit_us, MICROS);
        page.family("mailprobe_store_group_writes", Kind::Histogram, "How many writes share a commit.")
            .histogram(&[], &group, 1.0);
        page.counter("mailprobe_credits_spent_total", "Credits spent since the start.", credits_spent);
        page.counter("mailprobe_credits_granted_total", "Credits granted since the start.", credits_granted);
        // A store that cannot be read has no sizes; the rest is told all the same.
        if let Ok(Sizes { folder_bytes, rows }) = self.store.sizes() {
            page.gauge("mailprobe_store_folder_bytes", "All files of the data folder.", folder_bytes);
            let mut family = page.family("mailprobe_store_rows", Kind::Gauge, "Rows of a table.");
            for (table, rows) in &rows {
                family.sample(&[("table", table)], rows);
            }
        }
    }

    fn process(&self, page: &mut Page) {
        let seen = process::look();
        let help = "Log lines that were dropped because standard error was not read.";
        page.counter("mailprobe_log_lines_dropped_total", help, (self.log_dropped)());
        page.gauge("process_start_time_seconds", "When it was started, since 1970.", self.started);
        if let Some(seconds) = seen.cpu_seconds {
            page.counter("process_cpu_seconds_total", "User and system time.", seconds);
        }
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory in use.", seen.resident_bytes),
            ("process_virtual_memory_bytes", "Address space in use.", seen.virtual_bytes),
            ("process_threads", "Threads.", seen.threads),
            ("process_open_fds", "Open file descriptors.", seen.open_fds),
            ("process_max_fds", "Most open file descriptors.", seen.max_fds),
        ] {
            if let Some(value) = value {
                page.gauge(name, help, value);
            }
        }
    }

    /// What all threads have counted.
    fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        for tally in &self.tallies {
            let counts = tally.counts();
            for (what, count) in &counts.requests {
                *sum.requests.entry(*what).or_default() += count;
            }
            for (of, latency) in &counts.latencies {
                sum.latencies
                    .entry(*of)
                    .and_modify(|all| all.add(latency))
                    .or_insert_with(|| latency.clone());
            }
            for (what, count) in &counts.checks {
                *sum.checks.entry(*what).or_default() += count;
            }
        }
        sum
    }
}

fn sources(page: &mut Page, sources: &[SourceFigures]) {
    let help = "How often a site blocked a source, which was sent to rest there.";
    let mut family = page.family("mailprobe_source_rests_total", Kind::Counter, help);
    for source in sources {
        family.sample(&[("source", &source.name)], source.rests);
    }
    let help = "At how many sites a source rests.";
    let mut family = page.family("mailprobe_sources_resting", Kind::Gauge, help);
    for source in sources {
        family.sample(&[("source", &source.name)], source.resting);
    }
    let help = "Whether nobody can be reached from a source: 1 or 0.";
    let mut family = page.family("mailprobe_source_down", Kind::Gauge, help);
    for source in sources {
        family.sample(&[("source", &source.name)], u8::from(source.down));
    }
}

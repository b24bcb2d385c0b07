//! The rendering of the counters as a page.

use super::Metrics;
use super::process;
use super::text::{Kind, Page};
use checks::counters::{Counts, Tally};
use engine::proto::sharing::UsedUp;
use engine::{ShardFigures, SourceFigures};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Sizes, StoreFigures};

const MICROS: f64 = 1e6;

impl Metrics {
    /// The page with the current values, in the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut page = Page::default();
        page.family(
            "mailprobe_build_info",
            Kind::Gauge,
            "Version of the running server, as a label; the value is always 1.",
        )
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.requests(&mut page);
        self.connections(&mut page);
        self.shares(&mut page);
        self.engine(&mut page);
        self.store(&mut page);
        self.process(&mut page);
        page.finish()
    }

    fn requests(&self, page: &mut Page) {
        let sum = self.sum();
        let mut family = page.family("mailprobe_requests_total", Kind::Counter, "Requests with an answer.");
        for (what, count) in &sum.requests {
            let status = what.status.to_string();
            family.sample(&[("route", what.route), ("method", what.method), ("status", &status)], count);
        }
        let mut family = page.family(
            "mailprobe_request_duration_seconds",
            Kind::Histogram,
            "Time from the head of a request to its answer.",
        );
        for ((route, method), latency) in &sum.latencies {
            family.histogram(&[("route", route), ("method", method)], latency, MICROS);
        }
        let mut family = page.family("mailprobe_checks_total", Kind::Counter, "Addresses with a verdict.");
        for (what, count) in &sum.checks {
            family.sample(&[("mode", what.mode), ("reason", what.reason)], count);
        }
        self.batches(page);
    }

    fn batches(&self, page: &mut Page) {
        let help =
            "Checks that wait or fail because the budget of refused recipients of the site is used up.";
        let mut family = page.family("mailprobe_over_budget_total", Kind::Counter, help);
        let count = |tally: &Arc<Tally>| tally.over_budget.load(Ordering::Relaxed);
        // The last tally is that of the thread that feeds batches.
        if let Some((batches, frontends)) = self.tallies.split_last() {
            family.sample(&[("mode", "full")], frontends.iter().map(count).sum::<u64>());
            family.sample(&[("mode", "batch")], count(batches));
            let help = "Rows of batches without an answer, also of the batches that lists are divided into.";
            page.gauge("mailprobe_batch_rows_waiting", help, batches.rows_waiting.load(Ordering::Relaxed));
        }
    }

    fn connections(&self, page: &mut Page) {
        let sum = |of: fn(&Tally) -> &AtomicU64| -> u64 {
            self.tallies.iter().map(|tally| of(tally).load(Ordering::Relaxed)).sum()
        };
        // Ended connections are read first: a connection that ends between the two reads then counts as open, and the
        // difference is never negative.
        let ended = sum(|tally| &tally.ended);
        let accepted = sum(|tally| &tally.accepted);
        page.counter("mailprobe_connections_total", "Accepted connections.", accepted);
        page.gauge("mailprobe_connections_open", "Open connections.", accepted.saturating_sub(ended));
        page.gauge(
            "mailprobe_connections_max",
            "Maximum number of connections at the same time.",
            self.connections_max,
        );
        let closed = [
            ("peer_limit", sum(|tally| &tally.refused)),
            ("gave_way", sum(|tally| &tally.gave_way)),
            ("too_slow", sum(|tally| &tally.too_slow)),
            ("memory", sum(|tally| &tally.memory)),
        ];
        let help = "Connections that the server closed, by reason.";
        page.by_label("mailprobe_connections_closed_total", Kind::Counter, help, "why", closed);
    }

    fn shares(&self, page: &mut Page) {
        let shares = self.shares.get().map(Vec::as_slice).unwrap_or_default();
        let help = "How much of a thing that accounts or networks share is taken, in its own unit.";
        let used = shares.iter().map(|share| (share.name, share.used()));
        page.by_label("mailprobe_share_used", Kind::Gauge, help, "of", used);
        let help = "The most that all accounts or networks together may take of a shared thing.";
        let most = shares.iter().map(|share| (share.name, share.bounds.all));
        page.by_label("mailprobe_share_max", Kind::Gauge, help, "of", most);
        let help = "What was refused because a share is used up, by the bound: that of one account or network, or that of all.";
        let mut family = page.family("mailprobe_share_refused_total", Kind::Counter, help);
        for share in shares {
            for (by, bound) in [(UsedUp::Share, "share"), (UsedUp::All, "all")] {
                family.sample(&[("of", share.name), ("by", bound)], share.refused(by));
            }
        }
    }

    fn engine(&self, page: &mut Page) {
        let figures = (self.engine)();
        page.gauge("mailprobe_engine_tickets", "Addresses in progress in the engine.", figures.under_way);
        let help = "Maximum number of addresses in progress in the engine.";
        page.gauge("mailprobe_engine_tickets_max", help, figures.tickets_max);
        let help = "Maximum number of open SMTP sessions, over all shards.";
        page.gauge("mailprobe_engine_sessions_max", help, figures.sessions_max);
        let shards: Vec<String> = (0..figures.shards.len()).map(|number| number.to_string()).collect();
        let mut by_shard = |name, kind, help, of: fn(&ShardFigures) -> f64| {
            let values = figures.shards.iter().map(of);
            page.by_label(name, kind, help, "shard", shards.iter().map(String::as_str).zip(values));
        };
        let help = "Messages that wait in the inbox of a shard.";
        by_shard("mailprobe_engine_shard_inbox", Kind::Gauge, help, |shard| shard.waiting as f64);
        let help = "Open SMTP sessions of a shard.";
        by_shard("mailprobe_engine_shard_sessions", Kind::Gauge, help, |shard| shard.sessions as f64);
        let help = "Addresses on a shard that wait for a session at a site.";
        by_shard("mailprobe_engine_shard_queue", Kind::Gauge, help, |shard| shard.queued as f64);
        let help = "Replies of mail servers about recipients, by shard.";
        by_shard("mailprobe_engine_shard_answers_total", Kind::Counter, help, |shard| shard.answers as f64);
        let (name, help) = ("mailprobe_engine_shard_cpu_seconds_total", "Processor time of a shard.");
        by_shard(name, Kind::Counter, help, |shard| shard.busy.as_secs_f64());
        let help = "Time since the last heartbeat of a shard.";
        by_shard("mailprobe_engine_shard_silent_seconds", Kind::Gauge, help, |s| s.silent.as_secs_f64());
        sources(page, &figures.sources);
    }

    fn store(&self, page: &mut Page) {
        let StoreFigures { waiting, commit_us, group, credits_spent, credits_granted } = self.store.figures();
        let writable = u8::from(self.store.health().is_ok());
        page.gauge("mailprobe_store_writable", "Whether the store accepts writes: 1 or 0.", writable);
        page.gauge("mailprobe_store_queue", "Writes that wait for the store's writer.", waiting);
        page.family("mailprobe_store_commit_seconds", Kind::Histogram, "Time for a group of writes.")
            .histogram(&[], &commit_us, MICROS);
        page.family("mailprobe_store_group_writes", Kind::Histogram, "Number of writes in a commit.")
            .histogram(&[], &group, 1.0);
        page.counter("mailprobe_credits_spent_total", "Credits spent since the start.", credits_spent);
        page.counter("mailprobe_credits_granted_total", "Credits granted since the start.", credits_granted);
        // If the store cannot be read, its sizes are missing and the rest of the page remains.
        if let Ok(Sizes { folder_bytes, rows }) = self.store.sizes().wait() {
            page.gauge("mailprobe_store_folder_bytes", "Size of all files in the data folder.", folder_bytes);
            let rows = rows.iter().map(|(table, rows)| (&**table, rows));
            page.by_label("mailprobe_store_rows", Kind::Gauge, "Number of rows in a table.", "table", rows);
        }
    }

    fn process(&self, page: &mut Page) {
        let seen = process::look();
        let help = "Log lines that were dropped because no program read standard error.";
        page.counter("mailprobe_log_lines_dropped_total", help, (self.log_dropped)());
        page.gauge(
            "process_start_time_seconds",
            "Start time of the process, in seconds since 1970.",
            self.started,
        );
        if let Some(seconds) = seen.cpu_seconds {
            page.counter("process_cpu_seconds_total", "User and system CPU time.", seconds);
        }
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory.", seen.resident_bytes),
            ("process_virtual_memory_bytes", "Virtual memory.", seen.virtual_bytes),
            ("process_threads", "Number of threads.", seen.threads),
            ("process_open_fds", "Number of open file descriptors.", seen.open_fds),
            ("process_max_fds", "Maximum number of open file descriptors.", seen.max_fds),
        ] {
            if let Some(value) = value {
                page.gauge(name, help, value);
            }
        }
    }

    /// The sum over all threads.
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
    let mut by_source = |name, kind, help, of: fn(&SourceFigures) -> u64| {
        let samples = sources.iter().map(|source| (source.name.as_str(), of(source)));
        page.by_label(name, kind, help, "source", samples);
    };
    let help = "Rests of a source, because a site blocked it.";
    by_source("mailprobe_source_rests_total", Kind::Counter, help, |source| source.rests);
    let help = "Number of sites at which a source rests.";
    by_source("mailprobe_sources_resting", Kind::Gauge, help, |source| source.resting as u64);
    let help = "Whether no mail server can be reached from a source: 1 or 0.";
    by_source("mailprobe_source_down", Kind::Gauge, help, |source| u64::from(source.down));
}

//! A writer for the text format of Prometheus, version 0.0.4: families with `# HELP` and `# TYPE`, samples with labels.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>
//!
//! Client libraries keep counters in a registry that all threads share. Here each thread has its own counters, and the
//! page adds them up on request, so only the writing of the text remains.

use std::fmt::{Display, Write};
use store::histogram::Histogram;

/// The content type of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of a page, to which families are added.
#[derive(Default)]
pub struct Page(String);

/// The kinds of metric families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// Counts of values by size.
    Histogram,
}

/// The names and values of a sample's labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A family to which samples are added.
pub struct Family<'p> {
    page: &'p mut Page,
    name: &'static str,
}

impl Page {
    /// Starts a family. Its name must be unique in the page.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { page: self, name }
    }

    /// Adds a family with one gauge.
    pub fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help).sample(&[], value);
    }

    /// Adds a family with one counter.
    pub fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Counter, help).sample(&[], value);
    }

    /// Adds a family with one sample for each value of a label.
    pub fn by_label<'v, V: Display>(
        &mut self,
        name: &'static str,
        kind: Kind,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'v str, V)>,
    ) {
        let mut family = self.family(name, kind, help);
        for (of, value) in samples {
            family.sample(&[(label, of)], value);
        }
    }

    /// The complete text of the page.
    pub fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, name: &str, suffix: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        self.0.push_str(suffix);
        for (number, (label, text)) in labels.iter().enumerate() {
            self.0.push_str(if number == 0 { "{" } else { "," });
            let _ = write!(self.0, "{label}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

impl Family<'_> {
    /// Adds one sample to the family.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.page.line(self.name, "", labels, value);
    }

    /// Adds the samples of a histogram. `unit` values of the histogram are one unit of the metric.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram, per_unit: f64) {
        for (bound, count) in histogram.cumulative() {
            let bound = (bound as f64 / per_unit).to_string();
            self.bucket(labels, &bound, count);
        }
        self.bucket(labels, "+Inf", histogram.count());
        self.page.line(self.name, "_sum", labels, histogram.sum() as f64 / per_unit);
        self.page.line(self.name, "_count", labels, histogram.count());
    }

    fn bucket(&mut self, labels: Labels<'_>, bound: &str, count: u64) {
        let mut with_bound: Vec<(&str, &str)> = labels.to_vec();
        with_bound.push(("le", bound));
        self.page.line(self.name, "_bucket", &with_bound, count);
    }
}

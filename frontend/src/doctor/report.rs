//! What a check found, what it means for verdicts, and what to do about it.

use serde::Serialize;
use std::io::{self, Write};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing to do.
    Ok,
    /// Some verdicts suffer, or soon will.
    Warning,
    /// Checks do not work, or most verdicts suffer.
    Failure,
}

/// The result of one check on one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check, such as `resolver`.
    pub check: &'static str,
    /// What was checked, such as an address; empty if the check has one subject.
    pub subject: String,
    /// Whether the subject is a source, which the text for people then says.
    #[serde(skip)]
    pub(super) of_source: bool,
    /// What the text for people says in place of `check`, whose names scripts know; `None`: it says `check`.
    #[serde(skip)]
    pub(super) heading: Option<String>,
    /// How serious it is.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// What it means for verdicts; empty if all is well.
    pub meaning: String,
    /// What to do; empty if all is well.
    pub remedy: String,
}

impl Finding {
    /// A finding with nothing to do.
    pub fn ok(check: &'static str, subject: impl Into<String>, found: impl Into<String>) -> Finding {
        let (subject, found) = (subject.into(), found.into());
        Finding {
            check,
            subject,
            of_source: false,
            heading: None,
            severity: Severity::Ok,
            found,
            meaning: String::new(),
            remedy: String::new(),
        }
    }

    /// A finding about a source, with nothing to do. The subject begins with the label of the source.
    pub fn of_source(check: &'static str, subject: impl Into<String>, found: impl Into<String>) -> Finding {
        Finding { of_source: true, ..Finding::ok(check, subject, found) }
    }

    /// The same finding as a warning.
    pub fn warning(self, meaning: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, meaning: meaning.into(), remedy: remedy.into(), ..self }
    }

    /// The same finding as a failure.
    pub fn failure(self, meaning: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { severity: Severity::Failure, meaning: meaning.into(), remedy: remedy.into(), ..self }
    }
}

/// All findings of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The most serious of the findings.
    pub severity: Severity,
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The report of these findings.
    pub fn new(findings: Vec<Finding>) -> Report {
        let severity = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
        Report { severity, findings }
    }

    /// The exit code: 0, 1 with a failure, 3 with warnings only.
    pub fn exit_code(&self) -> u8 {
        match self.severity {
            Severity::Ok => 0,
            Severity::Warning => 3,
            Severity::Failure => 1,
        }
    }

    /// Writes the findings for people: a line each, and two more lines if there is something to do.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&self, out: &mut dyn Write, colours: bool) -> io::Result<()> {
        for finding in &self.findings {
            let (word, colour) = match finding.severity {
                Severity::Ok => ("ok", 32),
                Severity::Warning => ("warning", 33),
                Severity::Failure => ("failure", 31),
            };
            let word = match colours {
                true => format!("\u{1b}[{colour}m{word:<8}\u{1b}[0m"),
                false => format!("{word:<8}"),
            };
            let Finding { subject, found, meaning, remedy, .. } = finding;
            let check = finding.heading.as_deref().unwrap_or(finding.check);
            let subject = match subject.as_str() {
                "" => String::new(),
                subject if finding.of_source => format!(" of the source {subject}"),
                subject => format!(" {subject}"),
            };
            writeln!(out, "{word} {}", shown(&format!("{check}{subject}: {found}")))?;
            if finding.severity != Severity::Ok {
                writeln!(out, "         Means: {}", shown(meaning))?;
                writeln!(out, "         Do:    {}", shown(remedy))?;
            }
        }
        Ok(())
    }
}

/// Replaces control characters: text from servers must not control the terminal.
fn shown(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides_the_exit_code() {
        let ok = || Finding::ok("clock", "", "right");
        let warning = || Finding::ok("ipv6", "", "none").warning("few hosts", "get some");
        let failure =
            || Finding::ok("port 25", "a\u{1b}b", "silent").failure("no verdicts", "ask the provider");
        for (findings, code) in [
            (vec![], 0),
            (vec![ok(), ok()], 0),
            (vec![ok(), warning()], 3),
            (vec![failure(), warning(), ok()], 1),
        ] {
            assert_eq!(Report::new(findings).exit_code(), code);
        }
        let mut out = Vec::new();
        let source = Finding::of_source("reverse DNS", "default", "not checked");
        assert!(serde_json::to_value(&source).unwrap().get("of_source").is_none());
        Report::new(vec![ok(), failure(), source]).write(&mut out, false).unwrap();
        let expected = "ok       clock: right\n\
                        failure  port 25 a\u{fffd}b: silent\n         Means: no verdicts\n         Do:    ask the provider\n\
                        ok       reverse DNS of the source default: not checked\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

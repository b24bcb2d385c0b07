//! The limits of mail operators on sessions and recipients: the polite rate, whatever the machine can do.
//!
//! Source of the built-in rows: the shaping tables of KumoMTA (`assets/policy-extras/shaping.toml`, connection limit
//! and deliveries per connection), which are also the basis of mailprobe's profile `polite`. These limits change
//! without notice: a file can replace them.

use std::path::Path;

/// The limits of a site for one source address.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub name: String,
    /// The limit on simultaneous sessions.
    pub sessions: f64,
    /// The limit on recipients per session.
    pub recipients: f64,
    /// The limit on new sessions per minute.
    pub starts: f64,
}

/// The pace profile, as in `--pace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pace {
    /// Below the limits that providers set for senders.
    Polite,
    /// At the limits of most servers.
    Fast,
    /// No limits, for your own servers.
    Lab,
}

/// Sessions, and recipients per session; every other site has those of the last row.
const BUILT_IN: [(&str, f64, f64); 12] = [
    ("google", 5.0, 50.0),
    ("microsoft365", 5.0, 50.0),
    ("outlook", 5.0, 50.0),
    ("icloud", 10.0, 5.0),
    ("yahoo", 10.0, 20.0),
    ("mimecast", 10.0, 100.0),
    ("gmx", 4.0, 20.0),
    ("qq", 4.0, 8.0),
    ("netease", 4.0, 7.0),
    ("barracuda", 10.0, 15.0),
    ("orange", 2.0, 100.0),
    (OTHER, 10.0, 100.0),
];
/// The name of the row for sites without a row.
pub const OTHER: &str = "other";
/// New sessions per minute with one site.
const STARTS: f64 = 100.0;
/// How many refusals of a session precede a new session: Postfix delays replies after ten by default.
pub const ERRORS: f64 = 10.0;

/// The built-in table for a pace profile.
pub fn built_in(pace: Pace) -> Vec<Limits> {
    let row = |(name, sessions, recipients): (&str, f64, f64)| {
        let name = name.to_owned();
        match pace {
            Pace::Polite => Limits { name, sessions, recipients, starts: STARTS },
            Pace::Fast => {
                Limits { name, sessions: sessions * 3.0, recipients: recipients * 10.0, starts: STARTS * 6.0 }
            }
            Pace::Lab => {
                Limits { name, sessions: f64::INFINITY, recipients: f64::INFINITY, starts: f64::INFINITY }
            }
        }
    };
    BUILT_IN.into_iter().map(row).collect()
}

/// Reads a table from a file: one line with name, sessions, recipients per session and new sessions per minute; `#`
/// starts a comment. It replaces the rows with the same names.
///
/// # Errors
///
/// One line that names file and line.
pub fn read(path: &Path, mut table: Vec<Limits>) -> Result<Vec<Limits>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let row = parse(&words).ok_or_else(|| {
            format!(
                "{}:{}: a line has a name, sessions, recipients per session and new sessions per minute; all numbers are above 0",
                path.display(),
                number + 1
            )
        })?;
        table.retain(|other| other.name != row.name);
        table.push(row);
    }
    Ok(table)
}

fn parse(words: &[&str]) -> Option<Limits> {
    let [name, sessions, recipients, starts] = words else { return None };
    let number = |text: &str| text.parse().ok().filter(|number: &f64| *number > 0.0);
    Some(Limits {
        name: (*name).to_owned(),
        sessions: number(sessions)?,
        recipients: number(recipients)?,
        starts: number(starts)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_replaces_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("providers");
        std::fs::write(&path, "# name sessions recipients starts\ngoogle 20 100 300 # agreed\nacme 1 2 3\n")
            .unwrap();
        let table = read(&path, built_in(Pace::Polite)).unwrap();
        assert_eq!(table.len(), BUILT_IN.len() + 1);
        let google: Vec<_> = table.iter().filter(|row| row.name == "google").collect();
        assert_eq!(google.len(), 1);
        assert_eq!((google[0].sessions, google[0].recipients, google[0].starts), (20.0, 100.0, 300.0));
        for line in ["google 1 2", "google 1 2 x", "google 0 1 1", "google 1 2 3 4"] {
            std::fs::write(&path, format!("\n{line}\n")).unwrap();
            assert!(read(&path, Vec::new()).unwrap_err().contains(":2:"), "{line}");
        }
    }

    #[test]
    fn a_faster_pace_allows_more() {
        let polite = built_in(Pace::Polite);
        let fast = built_in(Pace::Fast);
        assert!(
            polite
                .iter()
                .zip(&fast)
                .all(|(one, other)| one.sessions < other.sessions && one.starts < other.starts)
        );
        assert!(built_in(Pace::Lab).iter().all(|row| row.sessions.is_infinite()));
    }
}

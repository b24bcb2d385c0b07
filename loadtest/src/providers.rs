//! The limits of mail operators on sessions and recipients, and mailprobe's budgets of refused recipients: the polite
//! rate, whatever the machine can do.
//!
//! Source of the built-in rows: the shaping tables of KumoMTA (`assets/policy-extras/shaping.toml`, connection limit
//! and deliveries per connection), which are also the basis of mailprobe's profile `polite`. These limits change
//! without notice: a file can replace them. This program does not import the engine, so a test compares the rows and
//! the budgets with its source (`engine/proto/src/pace/ceiling.rs`).

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
    /// mailprobe's own limit on refused recipients.
    pub budget: Budget,
}

/// How many recipients a site may refuse to one source within an hour, before mailprobe asks it nothing more
/// (docs/verdicts.md, budgets of refused recipients).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// While the site refuses more recipients than it accepts.
    pub mostly_refused: f64,
    /// While it accepts more than it refuses; or a quarter of the accepts, if that is more.
    pub mostly_accepted: f64,
}

impl Budget {
    const UNLIMITED: Budget = Budget { mostly_refused: f64::INFINITY, mostly_accepted: f64::INFINITY };

    /// The refused recipients of [`WINDOW_S`] seconds if this share of the recipients is refused. It is infinite if
    /// the accepts make enough room.
    pub fn refusals(self, refused_share: f64) -> f64 {
        let fixed = self.mostly_accepted <= self.mostly_refused;
        // Shares come from percentages, so they are not exact. At exactly a quarter of the accepts, the recipients in
        // progress exceed the budget, so the site stops.
        if !fixed && refused_share < 1.0 / (1.0 + ACCEPTS_PER_REFUSAL) - 1e-6 {
            f64::INFINITY
        } else if !fixed && refused_share < 0.5 - 1e-6 {
            self.mostly_accepted
        } else {
            self.mostly_refused
        }
    }

    fn times(self, factor: f64) -> Budget {
        Budget {
            mostly_refused: self.mostly_refused * factor,
            mostly_accepted: self.mostly_accepted * factor,
        }
    }
}

/// The seconds in which a budget can be used once. The counts are in steps of five minutes, and a step counts until it
/// is a whole hour old.
pub const WINDOW_S: f64 = 3900.0;
/// The accepts that make room for one refusal.
const ACCEPTS_PER_REFUSAL: f64 = 4.0;
/// How many times the budgets of the pace `polite` the pace `fast` has.
const FAST_BUDGETS: f64 = 5.0;

/// Any site.
const UNKNOWN: Budget = Budget { mostly_refused: 100.0, mostly_accepted: 600.0 };
/// Operators of the mail of very many people or domains.
const OPERATOR: Budget = Budget { mostly_refused: 3000.0, mostly_accepted: 6000.0 };
/// Cisco's cloud, where accepts make no room.
const CISCO: Budget = Budget { mostly_refused: 25.0, mostly_accepted: 25.0 };

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

/// Sessions, recipients per session, and the budget; every other site has those of the last row.
const BUILT_IN: [(&str, f64, f64, Budget); 15] = [
    ("google", 5.0, 50.0, OPERATOR),
    ("microsoft365", 5.0, 50.0, OPERATOR),
    ("outlook", 5.0, 50.0, OPERATOR),
    ("icloud", 10.0, 5.0, OPERATOR),
    ("yahoo", 10.0, 20.0, OPERATOR),
    ("zoho", 10.0, 100.0, OPERATOR),
    ("proofpoint", 10.0, 100.0, OPERATOR),
    ("mimecast", 10.0, 100.0, OPERATOR),
    ("barracuda", 10.0, 15.0, OPERATOR),
    ("cisco", 10.0, 100.0, CISCO),
    ("gmx", 4.0, 20.0, UNKNOWN),
    ("qq", 4.0, 8.0, UNKNOWN),
    ("netease", 4.0, 7.0, UNKNOWN),
    ("orange", 2.0, 100.0, UNKNOWN),
    (OTHER, 10.0, 100.0, UNKNOWN),
];
/// Providers that serve the domains of companies: each of these domains has a control recipient of its own.
const OF_COMPANIES: [&str; 6] = ["microsoft365", "zoho", "proofpoint", "mimecast", "barracuda", "cisco"];
/// Words for providers, other than their names in the table.
const ALIASES: [(&str, &str); 12] = [
    ("gmail", "google"),
    ("googlemail", "google"),
    ("workspace", "google"),
    ("hotmail", "outlook"),
    ("live", "outlook"),
    ("msn", "outlook"),
    ("microsoft", "microsoft365"),
    ("office365", "microsoft365"),
    ("exchange", "microsoft365"),
    ("apple", "icloud"),
    ("aol", "yahoo"),
    ("webde", "gmx"),
];
/// The name of the row for sites without a row.
pub const OTHER: &str = "other";
/// New sessions per minute with one site.
const STARTS: f64 = 100.0;
/// How many refusals of a session precede a new session: Postfix delays replies after ten by default.
pub const ERRORS: f64 = 10.0;

/// The built-in table for a pace profile.
pub fn built_in(pace: Pace) -> Vec<Limits> {
    let [sessions, recipients, starts, budgets] = match pace {
        Pace::Polite => [1.0; 4],
        Pace::Fast => [3.0, 10.0, 6.0, FAST_BUDGETS],
        Pace::Lab => [f64::INFINITY; 4],
    };
    let row = |(name, of_sessions, of_recipients, budget): (&str, f64, f64, Budget)| Limits {
        name: name.to_owned(),
        sessions: of_sessions * sessions,
        recipients: of_recipients * recipients,
        starts: STARTS * starts,
        budget: budget.times(budgets),
    };
    BUILT_IN.into_iter().map(row).collect()
}

/// Whether each domain of the provider has a control recipient of its own, because they are domains of companies.
pub fn is_of_companies(name: &str) -> bool {
    OF_COMPANIES.contains(&name)
}

/// The name in the table for another word for a provider, such as google for gmail or gmail.com.
pub fn known_as(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let first = word.split('.').next().unwrap_or_default();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == first).map(|(_, name)| *name);
    alias.or_else(|| BUILT_IN.iter().map(|row| row.0).find(|name| *name == first && *name != OTHER))
}

/// Reads a table from a file: one line with name, sessions, recipients per session and new sessions per minute; `#`
/// starts a comment. It replaces the rows with the same names. The budget of refused recipients is no limit of the
/// provider but one of mailprobe, so it stays that of the name.
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
        let mut row = parse(&words).ok_or_else(|| {
            format!(
                "{}:{}: a line has a name, sessions, recipients per session and new sessions per minute; all numbers are above 0",
                path.display(),
                number + 1
            )
        })?;
        let same = table.iter().find(|other| other.name == row.name);
        let like = same.or_else(|| table.iter().find(|other| other.name == OTHER));
        row.budget = like.map_or(Budget::UNLIMITED, |like| like.budget);
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
        budget: Budget::UNLIMITED,
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
        assert_eq!((google[0].budget, table.last().unwrap().budget), (OPERATOR, UNKNOWN));
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

    #[test]
    fn a_budget_follows_the_share_of_refused_recipients() {
        for (budget, exists, refusals) in [
            (OPERATOR, 1.0, f64::INFINITY),
            (OPERATOR, 0.81, f64::INFINITY),
            (OPERATOR, 0.8, 6000.0),
            (OPERATOR, 0.51, 6000.0),
            (OPERATOR, 0.5, 3000.0),
            (OPERATOR, 0.0, 3000.0),
            (UNKNOWN, 0.7, 600.0),
            (UNKNOWN, 0.3, 100.0),
            (CISCO, 0.99, 25.0),
            (Budget::UNLIMITED, 0.5, f64::INFINITY),
        ] {
            assert_eq!(budget.refusals(1.0 - exists), refusals, "{budget:?}, {exists} exist");
        }
    }

    #[test]
    fn other_words_have_the_names_of_the_table() {
        for (word, name) in [
            ("gmail", Some("google")),
            ("Gmail.com", Some("google")),
            ("hotmail", Some("outlook")),
            ("yahoo.co.uk", Some("yahoo")),
            ("office365", Some("microsoft365")),
            ("other", None),
            ("acme", None),
        ] {
            assert_eq!(known_as(word), name, "{word}");
        }
        assert!(ALIASES.iter().all(|(_, name)| BUILT_IN.iter().any(|row| row.0 == *name)));
        assert!(OF_COMPANIES.iter().all(|name| BUILT_IN.iter().any(|row| row.0 == *name)));
    }

    fn engine(file: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/proto/src").join(file);
        std::fs::read_to_string(&path).unwrap()
    }

    /// The text between two words.
    fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
        let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from}"));
        rest.split_once(to).unwrap_or_else(|| panic!("{to}")).0
    }

    fn number(text: &str) -> f64 {
        text.trim().parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
    }

    /// The rows of a constant table in the source: the words of each tuple.
    fn rows<'a>(text: &'a str, name: &str) -> Vec<Vec<&'a str>> {
        let body = between(text, &format!("const {name}: "), "];");
        let lines = body.lines().filter_map(|line| line.trim().strip_prefix('(')?.strip_suffix("),"));
        lines.map(|line| line.split(',').map(|word| word.trim().trim_matches('"')).collect()).collect()
    }

    fn budget(text: &str, name: &str) -> Budget {
        let body = between(text, &format!("const {name}: RefusalBudget ="), ";");
        Budget {
            mostly_refused: number(between(body, "mostly_refused: ", ",")),
            mostly_accepted: number(between(body, "mostly_accepted: ", "}")),
        }
    }

    #[test]
    fn limits_and_budgets_are_those_of_the_engine() {
        let text = engine("pace/ceiling.rs");
        let (providers, budgets) = (rows(&text, "PROVIDERS"), rows(&text, "REFUSALS"));
        assert!(providers.len() > 5 && budgets.len() > 5, "{providers:?} {budgets:?}");
        for row in built_in(Pace::Polite) {
            let own = providers.iter().find(|words| words[0] == row.name);
            let (sessions, recipients) =
                own.map_or((10.0, 100.0), |words| (number(words[1]), number(words[2])));
            assert_eq!((row.sessions, row.recipients), (sessions, recipients), "{}", row.name);
            let of = budgets
                .iter()
                .find(|words| words[0] == row.name)
                .map_or("REFUSALS_UNKNOWN", |words| words[1]);
            assert_eq!(row.budget, budget(&text, of), "{}", row.name);
        }
        for words in providers.iter().chain(&budgets) {
            assert!(BUILT_IN.iter().any(|row| row.0 == words[0]), "{} has no row", words[0]);
        }
        assert_eq!(number(between(&text, "const FAST_REFUSALS: u32 =", ";")), FAST_BUDGETS);
        let limits = engine("limits.rs");
        assert_eq!(number(between(&limits, "REFUSALS_ACCEPTS_SHARE: u32 =", ";")), ACCEPTS_PER_REFUSAL);
        let step = number(between(&limits, "REFUSALS_STEP: Duration = Duration::from_secs(", ")"));
        assert_eq!(step * number(between(&limits, "REFUSALS_STEPS: usize =", ";")), WINDOW_S);
    }

    #[test]
    fn the_table_of_the_docs_has_these_limits() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/loadtest.md");
        let text = std::fs::read_to_string(path).unwrap();
        for row in built_in(Pace::Polite) {
            let budgets = format!(
                "{} | {}",
                crate::digits::grouped(row.budget.mostly_refused, 0),
                crate::digits::grouped(row.budget.mostly_accepted, 0)
            );
            let name =
                if row.name == OTHER { "any other site".to_owned() } else { format!("`{}`", row.name) };
            let line = format!("| {name} | {} | {} | {STARTS} | {budgets} |", row.sessions, row.recipients);
            assert!(text.lines().any(|other| other == line), "docs/loadtest.md lacks {line}");
        }
    }
}

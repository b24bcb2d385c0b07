//! Readers of files in `testdata` that several tests have.

/// The lines of a file without comments.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Domains, each with the suffix that a rule names and its registrable domain, or "-".
pub(crate) fn registrable_rows() -> impl Iterator<Item = [&'static str; 3]> {
    let words = |line: &'static str| line.split(' ').collect::<Vec<_>>().try_into().expect(line);
    rows(include_str!("../testdata/registrable.txt")).map(words)
}

/// The scenarios of a file: the name of each, and its steps.
pub(crate) fn scenarios(text: &str) -> impl Iterator<Item = (&str, &str)> {
    rows(text).map(|line| line.split_once(": ").expect(line))
}

/// The steps of a scenario: the second of each, what happens, and whether it is down behind that.
pub(crate) fn scenario_steps(steps: &str) -> impl Iterator<Item = (u64, &str, bool)> {
    steps.split(", ").map(|step| {
        let (second, step) = step.split_once(' ').expect(step);
        let up = step.trim_end_matches('!');
        (second.parse().expect(second), up, up != step)
    })
}

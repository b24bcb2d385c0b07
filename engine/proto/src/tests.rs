//! Readers of those files in `testdata` that the tests of several modules use.

/// The lines of a file, without comments and empty lines.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Domains, each with the public suffix that a rule names, and with its registrable domain. "-" stands for none.
pub(crate) fn registrable_rows() -> impl Iterator<Item = [&'static str; 3]> {
    let words = |line: &'static str| line.split(' ').collect::<Vec<_>>().try_into().expect(line);
    rows(include_str!("../testdata/registrable.txt")).map(words)
}

/// The names of the scenarios in a file, each with its steps.
pub(crate) fn scenarios(text: &str) -> impl Iterator<Item = (&str, &str)> {
    rows(text).map(|line| line.split_once(": ").expect(line))
}

/// The steps of a scenario: the second of each step, what happens, and whether there has to be an outage afterwards (`!`).
pub(crate) fn scenario_steps(steps: &str) -> impl Iterator<Item = (u64, &str, bool)> {
    steps.split(", ").map(|step| {
        let (second, step) = step.split_once(' ').expect(step);
        let up = step.trim_end_matches('!');
        (second.parse().expect(second), up, up != step)
    })
}

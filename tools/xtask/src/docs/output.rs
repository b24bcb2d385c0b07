//! The comparison of a command's output with what a page shows.
//!
//! A line of three dots stands for any number of lines. Three dots inside a line stand for any text. Spaces at the end of
//! lines, and empty lines at the end of the output, make no difference.

/// What stands for parts that vary.
const ANY: &str = "...";

/// Whether the output is as shown.
pub fn is_as_shown(shown: &str, printed: &str) -> bool {
    matches_lines(&lines(shown), &lines(printed))
}

fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

fn matches_lines(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&ANY, rest)) => (0..=printed.len()).any(|skipped| matches_lines(rest, &printed[skipped..])),
        Some((line, rest)) => match printed.split_first() {
            Some((first, others)) => matches_line(line, first) && matches_lines(rest, others),
            None => false,
        },
    }
}

fn matches_line(shown: &str, printed: &str) -> bool {
    let parts: Vec<&str> = shown.split(ANY).collect();
    let [first, middle @ .., last] = parts.as_slice() else { return shown == printed };
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_what_varies() {
        let rows = [
            ("a\n", "a\n", true),
            ("a\n", "a  \n\n", true),
            ("a\n", "b\n", false),
            ("a\n", "a\nb\n", false),
            ("a\nb\n", "a\n", false),
            ("", "", true),
            ("", "a\n", false),
            ("a\n...\n", "a\n", true),
            ("a\n...\n", "a\nb\nc\n", true),
            ("a\n...\nc\n", "a\nb\nb\nc\n", true),
            ("a\n...\nc\n", "a\nb\n", false),
            ("...\nc\n...\n", "a\nc\nd\n", true),
            ("p50 ... ms\n", "p50 1.25 ms\n", true),
            ("p50 ... ms\n", "p99 1.25 ms\n", false),
            ("p50 ... ms\n", "p50 1.25 s\n", false),
            ("a ... b ... c\n", "a 1 b 2 c\n", true),
            ("a ... b ... c\n", "a 1 c\n", false),
            ("a...a\n", "a\n", false),
            ("a ...\n", "a 1\n", true),
            ("a ...\n", "a 1\nb\n", false),
        ];
        for (shown, printed, expected) in rows {
            assert_eq!(is_as_shown(shown, printed), expected, "{shown:?} {printed:?}");
        }
    }
}

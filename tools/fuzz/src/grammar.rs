//! Grammars for inputs, from the files in `grammars`.
//!
//! A line without a mark names a rule, and the lines with `=` behind it are its choices. A number after the `=` is the
//! weight of the choice; it is 1 without a number. In a choice, `${rule}` stands for a choice of that rule, `${rule*0-4}` for
//! none to four of them, and `${=rule}` for one that is the same wherever it stands. The escapes are `\n`, `\r`, `\t`, `\\` and
//! `\u{202e}`.

use fastrand::Rng;
use std::collections::HashMap;

/// The rules by name, each with the weights and the parts of its choices.
pub struct Grammar(HashMap<&'static str, Vec<(u32, Vec<Part>)>>);

enum Part {
    Text(String),
    Rule { name: &'static str, least: usize, most: usize },
    Same(&'static str),
}

impl Grammar {
    /// Reads the text of a grammar.
    pub fn of(text: &'static str) -> Grammar {
        let (mut rules, mut name): (HashMap<_, Vec<_>>, _) = (HashMap::new(), "");
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(choice) = line.strip_prefix('=') {
                let (weight, text) = choice.split_once(' ').unwrap_or((choice, ""));
                rules.entry(name).or_default().push((weight.parse().unwrap_or(1), parts(text)));
            } else {
                name = line;
            }
        }
        Grammar(rules)
    }

    /// Makes a text of a rule.
    ///
    /// # Panics
    ///
    /// The grammar has no such rule.
    pub fn grow(&self, rule: &str, random: &mut Rng) -> String {
        let mut text = String::new();
        self.add(rule, random, &mut text);
        text
    }

    fn add(&self, rule: &str, random: &mut Rng, text: &mut String) {
        let choices = self.0.get(rule).unwrap_or_else(|| panic!("a grammar without the rule `{rule}`"));
        let mut drawn = random.u32(..choices.iter().map(|(weight, _)| weight).sum::<u32>());
        let choice = choices.iter().find(|(weight, _)| {
            let is_drawn = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_drawn
        });
        let mut same = HashMap::new();
        for part in choice.into_iter().flat_map(|(_, parts)| parts) {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Rule { name, least, most } => {
                    (0..random.usize(least..=most)).for_each(|_| self.add(name, random, text));
                }
                Part::Same(name) => {
                    text.push_str(same.entry(name).or_insert_with(|| self.grow(name, random)))
                }
            }
        }
    }
}

fn parts(choice: &'static str) -> Vec<Part> {
    let mut pieces = choice.split("${");
    let mut parts = vec![Part::Text(unescaped(pieces.next().unwrap_or_default()))];
    for piece in pieces {
        let (name, text) = piece.split_once('}').unwrap_or((piece, ""));
        parts.push(match (name.strip_prefix('='), name.split_once('*')) {
            (Some(name), _) => Part::Same(name),
            (None, None) => Part::Rule { name, least: 1, most: 1 },
            (None, Some((name, times))) => {
                let (least, most) = times.split_once('-').unwrap_or((times, times));
                let [least, most] = [least, most].map(|number| number.parse().unwrap_or(1));
                Part::Rule { name, least, most }
            }
        });
        parts.push(Part::Text(unescaped(text)));
    }
    parts
}

fn unescaped(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((before, escape)) = text.split_once('\\') {
        let (character, rest) = match escape.split_at_checked(1).unwrap_or_default() {
            ("n", rest) => ('\n', rest),
            ("r", rest) => ('\r', rest),
            ("t", rest) => ('\t', rest),
            ("u", rest) => {
                let (digits, rest) = rest.trim_start_matches('{').split_once('}').unwrap_or_default();
                (u32::from_str_radix(digits, 16).ok().and_then(char::from_u32).unwrap_or_default(), rest)
            }
            (_, rest) => ('\\', rest),
        };
        whole.push_str(before);
        whole.push(character);
        text = rest;
    }
    whole + text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_replaced_by_their_choices() {
        let grammar = Grammar::of("start\n=3 ${=a}${=a}${b*2-2}\na\n= x\n= y\nb\n= \\\\n\\u{0}é\\n\n");
        let grown: Vec<String> =
            (0..20).map(|seed| grammar.grow("start", &mut Rng::with_seed(seed))).collect();
        let [x, y] = ["xx", "yy"].map(|both| format!("{both}{}", "\\n\0é\n".repeat(2)));
        assert!(grown.iter().all(|text| *text == x || *text == y), "{grown:?}");
        assert!(grown.contains(&x) && grown.contains(&y), "{grown:?}");
    }
}

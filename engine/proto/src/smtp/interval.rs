//! The interval after which a server wants to be asked again, if its reply names one: "greylisted for 5 minutes", "try again in 300
//! seconds", "retry after 00:04:30".

use crate::limits::NAMED_INTERVAL_MAX;
use std::time::Duration;

/// The interval that the text names. A time with colons is preferred, then a number with its unit as the next word, then a number
/// with an attached unit. If one form occurs several times, the first one counts. `None` if the text names no interval, or if the
/// chosen one is longer than [`NAMED_INTERVAL_MAX`].
pub fn named(text: &str) -> Option<Duration> {
    let words =
        text.split(|c: char| c.is_whitespace() || "()[],;".contains(c)).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    let clock = words.iter().find_map(|word| clock(word));
    let counted = words.windows(2).find_map(|pair| counted(pair[0], pair[1]));
    let joined = || words.iter().find_map(|word| joined(word));
    clock.or(counted).or_else(joined).filter(|interval| *interval <= NAMED_INTERVAL_MAX)
}

/// Reads hours, minutes and seconds, such as `00:04:30`.
fn clock(word: &str) -> Option<Duration> {
    let parts: Vec<u64> = word.split(':').map(number).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    Some(Duration::from_secs(hours * 3600 + minutes * 60 + seconds))
}

/// Reads a number and its unit as two words, such as `5` and `minutes`.
fn counted(count: &str, unit: &str) -> Option<Duration> {
    Some(Duration::from_secs(number(count)? * unit_s(unit)?))
}

/// Reads a number and its unit as one word, such as `300s`.
fn joined(word: &str) -> Option<Duration> {
    let end = word.find(|c: char| !c.is_ascii_digit())?;
    counted(&word[..end], &word[end..])
}

/// Reads a number of at most five digits.
fn number(word: &str) -> Option<u64> {
    let digits = !word.is_empty() && word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_digit());
    if digits { word.parse().ok() } else { None }
}

fn unit_s(word: &str) -> Option<u64> {
    let word = word.trim_end_matches(['.', '!']).to_ascii_lowercase();
    match word.as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" | "sekunden" | "secondes" | "segundos" => Some(1),
        "m" | "min" | "mins" | "minute" | "minutes" | "minuten" | "minutos" => Some(60),
        "h" | "hour" | "hours" | "stunde" | "stunden" | "heure" | "heures" | "hora" | "horas" => Some(3600),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_with_their_units() {
        for (text, seconds) in [
            ("4.7.1 Greylisted for 5 minutes", Some(300)),
            (
                "4.2.0 <u@a.example>: Recipient address rejected: Greylisted, try again in 299 seconds",
                Some(299),
            ),
            ("Please retry after 00:04:30.5", None),
            ("Please retry after 00:04:30", Some(270)),
            ("come back in 60s.", Some(60)),
            ("Bitte in 10 Minuten wieder (4711)", Some(600)),
            ("4.3.2 Service currently unavailable", None),
            ("450 4.1.1 error 12345 host 192.0.2.1", None),
            ("try again in 99999 hours", None),
            ("wait 5", None),
            ("", None),
        ] {
            assert_eq!(named(text), seconds.map(Duration::from_secs), "{text}");
        }
    }
}

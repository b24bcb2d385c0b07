//! Numbers and times as people write them: `5,000`, `15m`, `30d`. All programs read the values of flags and settings with these
//! functions, so an error always says what is accepted.

use clap::{Arg, Command};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The units of a time, the longest first.
const UNITS: [(&str, Duration); 6] = [
    ("d", Duration::from_secs(86_400)),
    ("h", Duration::from_secs(3600)),
    ("m", Duration::from_secs(60)),
    ("s", Duration::from_secs(1)),
    ("ms", Duration::from_millis(1)),
    ("us", Duration::from_micros(1)),
];

/// The unit of a number that is given without a unit, and of the value that a flag stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Seconds,
    Hours,
    Days,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "milliseconds",
            Unit::Seconds => "seconds",
            Unit::Hours => "hours",
            Unit::Days => "days",
        }
    }

    fn length(self) -> Duration {
        match self {
            Unit::Milliseconds => Duration::from_millis(1),
            Unit::Seconds => Duration::from_secs(1),
            Unit::Hours => Duration::from_secs(3600),
            Unit::Days => Duration::from_secs(86_400),
        }
    }
}

/// Parses a time: numbers with the units `us`, `ms`, `s`, `m`, `h`, `d` and `w`, such as `15m`, `15 min` or `1h30m`. `bare` is the unit of a number without a unit;
/// `None` refuses such a number.
///
/// # Errors
/// One line that says what is accepted.
pub fn duration(text: &str, bare: Option<Unit>) -> Result<Duration, String> {
    read_duration(text, bare).ok_or_else(|| {
        let rule = "give a time such as 90s, 15m, 1h30m or 30d";
        match bare {
            None => rule.into(),
            Some(Unit::Days) => "give whole days, such as 7 or 7d".into(),
            Some(bare) => format!("{rule}; a number without a unit is in {}", bare.name()),
        }
    })
}

/// The sum of the parts of a time, such as `1h30m`. Each unit is shorter than the one before.
fn read_duration(text: &str, bare: Option<Unit>) -> Option<Duration> {
    let (mut rest, mut sum, mut last) = (text.trim(), Duration::ZERO, Duration::MAX);
    if !rest.contains(|c: char| c.is_ascii_alphabetic()) {
        return times(rest, bare?.length());
    }
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (digits, from_unit) = rest.split_at(unit_at);
        let end = from_unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(from_unit.len());
        let (unit, after) = from_unit.split_at(end);
        let length = unit_length(unit).filter(|length| *length < last)?;
        sum = sum.checked_add(times(digits.trim_end(), length)?)?;
        (rest, last) = (after.trim_start(), length);
    }
    Some(sum)
}

/// The length of a unit by its symbol or its name.
fn unit_length(name: &str) -> Option<Duration> {
    let symbol = match name {
        "sec" | "second" | "seconds" => "s",
        "min" | "minute" | "minutes" => "m",
        "hour" | "hours" => "h",
        "day" | "days" => "d",
        "w" | "week" | "weeks" => return Some(Duration::from_secs(7 * 86_400)),
        symbol => symbol,
    };
    UNITS.iter().find(|(known, _)| *known == symbol).map(|(_, length)| *length)
}

/// So many times this unit. A fraction is rounded to nanoseconds.
fn times(digits: &str, unit: Duration) -> Option<Duration> {
    if let Some(number) = whole(digits) {
        let nanos = unit.as_nanos().checked_mul(number.into())?;
        let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
        return Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32));
    }
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = digits.parse().ok().filter(|_| is_plain)?;
    Duration::try_from_secs_f64(number * unit.as_secs_f64()).ok()
}

/// A time as a flag takes it, with the longest unit that leaves no fraction: `15m`.
pub fn time_text(time: Duration) -> String {
    let fits = |(_, length): &&(&str, Duration)| time.as_nanos().is_multiple_of(length.as_nanos());
    match UNITS.iter().find(fits) {
        _ if time.is_zero() => "0s".into(),
        Some((name, length)) => format!("{}{name}", time.as_nanos() / length.as_nanos()),
        None => format!("{}us", time.as_micros()),
    }
}

/// Parses a whole number. Commas or underscores may separate groups of three digits.
fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    let mut groups = text.split([',', '_']);
    let first = groups.next()?;
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let is_grouped = first.len() <= 3 && groups.clone().all(|group| group.len() == 3);
    let has_groups = groups.clone().next().is_some();
    if first.is_empty() || !is_digits(first) || !groups.all(is_digits) || has_groups && !is_grouped {
        return None;
    }
    text.replace([',', '_'], "").parse().ok()
}

/// A number with separators of thousands: `1,000,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A bound of any kind of number, with separators of thousands if it is a whole number.
pub fn grouped_bound(bound: &impl Display) -> String {
    let text = bound.to_string();
    text.parse().map_or(text, grouped)
}

/// Parses a whole number from `min` to `max`, also with separators of thousands.
///
/// # Errors
/// One line that says what is accepted.
pub fn number<N: TryFrom<u64> + PartialOrd + Display>(text: &str, min: N, max: N) -> Result<N, String> {
    let read = whole(text).and_then(|number| N::try_from(number).ok());
    read.filter(|number| *number >= min && *number <= max).ok_or_else(|| {
        match (grouped_bound(&min), grouped_bound(&max)) {
            (_, max) if max == grouped(u64::MAX) => "give a whole number, such as 5000 or 5,000".into(),
            (min, max) => format!("give a whole number from {min} to {max}"),
        }
    })
}

/// The parser of a flag with a whole number in this range.
pub fn whole_number<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: TryFrom<u64> + PartialOrd + Display + Copy,
{
    move |text| number(text, *range.start(), *range.end())
}

/// The parser of a flag that stands for a time as a whole number of `unit`.
pub fn whole_time<N>(unit: Unit, range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: TryFrom<u64> + TryInto<u32> + PartialOrd + Copy,
{
    move |text| {
        let time = duration(text, Some(unit))?;
        let length = unit.length().as_nanos();
        if !time.as_nanos().is_multiple_of(length) {
            return Err(format!("`{text}` is not a whole number of {}", unit.name()));
        }
        let count = u64::try_from(time.as_nanos() / length).ok().and_then(|count| N::try_from(count).ok());
        count.filter(|count| range.contains(count)).ok_or_else(|| {
            let bound = |bound: N| {
                bound.try_into().map_or_else(|_| "no limit".into(), |bound| time_text(unit.length() * bound))
            };
            format!("give a time from {} to {}", bound(*range.start()), bound(*range.end()))
        })
    }
}

/// The parser of a flag with a decimal number in this range.
pub fn decimal(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("give a number from {} to {}", range.start(), range.end()))
    }
}

/// The flags whose values a parser of Rust's standard library reads: its errors do not say what is accepted. For tests.
pub fn flags_with_unclear_errors(command: &Command) -> Vec<String> {
    let is_unclear = |arg: &&Arg| {
        let bare = Arg::new("value").value_parser(arg.get_value_parser().clone());
        let error = Command::new("command").arg(bare).try_get_matches_from(["command", "1;2"]).err();
        let said = error.map(|error| error.to_string()).unwrap_or_default();
        ["invalid digit", "invalid float", "integer from empty"].iter().any(|words| said.contains(words))
    };
    let own = command.get_arguments().filter(is_unclear);
    let mut unclear: Vec<String> =
        own.map(|arg| format!("{} {}", command.get_name(), arg.get_id())).collect();
    unclear.extend(command.get_subcommands().flat_map(flags_with_unclear_errors));
    unclear
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| duration(text, Some(Unit::Seconds)).map(|time| time.as_secs_f64());
        for (text, expected) in [
            ("0", 0.0),
            ("900", 900.0),
            ("90s", 90.0),
            ("1h30m", 5400.0),
            ("1 h 30 min", 5400.0),
            ("15min", 900.0),
            ("2 hours", 7200.0),
            ("1w", 604_800.0),
            ("1d12h", 129_600.0),
            ("15m", 900.0),
            ("2h", 7200.0),
            ("30d", 2_592_000.0),
            ("250ms", 0.25),
            ("250us", 0.000_25),
            ("1.5h", 5400.0),
            ("1,000", 1000.0),
            (" 15 m ", 900.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "m",
            "15x",
            "1m30h",
            "1h1h",
            "-5",
            "30 1h",
            "1.5.2s",
            "infs",
            "NaN",
            "1e3s",
            "99999999999999999999d",
            "1,00s",
        ] {
            let error = "give a time such as 90s, 15m, 1h30m or 30d; a number without a unit is in seconds";
            assert_eq!(seconds(text), Err(error.into()), "{text}");
        }
        assert_eq!(duration("7", Some(Unit::Days)), duration("168h", None));
        assert_eq!(duration("7", None), Err("give a time such as 90s, 15m, 1h30m or 30d".into()));
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        for text in ["0s", "900us", "1500ms", "90s", "15m", "90m", "2h", "30d"] {
            assert_eq!(time_text(duration(text, None).unwrap()), text);
        }
    }

    #[test]
    fn numbers_may_have_separators() {
        for (text, expected) in
            [("0", 0), ("5000", 5000), ("5,000", 5000), ("5_000", 5000), ("1,234,567", 1_234_567), (" 7 ", 7)]
        {
            assert_eq!(number(text, 0, u64::MAX), Ok(expected), "{text}");
        }
        for text in
            ["", ",", "5.000", "5,00", "5,0000", "5000,000", "-1", "+1", "1e3", "5 000", ",000", "5,,000"]
        {
            assert_eq!(
                number(text, 0, u64::MAX),
                Err("give a whole number, such as 5000 or 5,000".into()),
                "{text}"
            );
        }
        assert_eq!(number("70,000", 0, u16::MAX), Err("give a whole number from 0 to 65,535".into()));
        assert_eq!(number("0", 1u32, 1_000_000), Err("give a whole number from 1 to 1,000,000".into()));
    }

    #[test]
    fn a_flag_of_days_takes_whole_days() {
        let days = whole_time(Unit::Days, 0u32..=3650);
        assert_eq!((days("7"), days("7d"), days("48h")), (Ok(7), Ok(7), Ok(2)));
        assert_eq!(days("36h"), Err("`36h` is not a whole number of days".into()));
        assert_eq!(days("4000"), Err("give a time from 0s to 3650d".into()));
        assert_eq!(decimal(0.0..=100.0)("101"), Err("give a number from 0 to 100".into()));
    }

    #[test]
    fn flags_with_the_errors_of_the_standard_library_are_found() {
        let command = Command::new("tool")
            .arg(Arg::new("rate").long("rate").value_parser(clap::value_parser!(u32)))
            .arg(Arg::new("clear").long("clear").value_parser(whole_number(1u32..=9)))
            .subcommand(Command::new("run").arg(Arg::new("share").value_parser(clap::value_parser!(f64))));
        assert_eq!(flags_with_unclear_errors(&command), ["tool rate", "run share"]);
    }
}

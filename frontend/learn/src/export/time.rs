//! The times of exports. Some forms do not show whether the day or the month stands first; the file as a whole decides.

use lists::utc_seconds;

/// A time as both orders read it, in seconds since 1970. `None`: there is no such month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub day_first: Option<u64>,
    pub month_first: Option<u64>,
    /// The order that the form suggests if nothing else decides.
    habit: Option<Order>,
}

impl Reading {
    fn certain(at: u64) -> Reading {
        Reading { day_first: Some(at), month_first: Some(at), habit: None }
    }

    /// The time, if both orders agree or one of them is not possible.
    pub fn certain_time(self) -> Option<u64> {
        match (self.day_first, self.month_first) {
            (Some(one), Some(other)) => (one == other).then_some(one),
            (one, other) => one.or(other),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    DayFirst,
    MonthFirst,
}

/// What the times of a file show about their order.
#[derive(Debug, Default)]
pub(super) struct Orders {
    day_first: bool,
    month_first: bool,
    habit: Option<Order>,
    /// Whether the times rise, and whether they fall, as each order reads them.
    last: Option<(u64, u64)>,
    unsorted: [[bool; 2]; 2],
}

impl Orders {
    /// Adds a time of the file. A time of the future shows that the order is the other one.
    pub fn add(&mut self, reading: Reading, now: u64) {
        let possible = |at: Option<u64>| at.filter(|at| *at <= now + 24 * 3600);
        match (possible(reading.day_first), possible(reading.month_first)) {
            (Some(day), Some(month)) => {
                if let Some((last_day, last_month)) = self.last.replace((day, month)) {
                    for (unsorted, last, at) in [(0, last_day, day), (1, last_month, month)] {
                        self.unsorted[unsorted][0] |= at < last;
                        self.unsorted[unsorted][1] |= at > last;
                    }
                }
                self.habit = self.habit.or(reading.habit);
            }
            (Some(_), None) => self.day_first = true,
            (None, Some(_)) => self.month_first = true,
            (None, None) => {}
        }
    }

    /// The order that times of the file prove. `None`: none does yet, or they contradict each other.
    pub fn proven(&self) -> Option<Order> {
        match (self.day_first, self.month_first) {
            (true, false) => Some(Order::DayFirst),
            (false, true) => Some(Order::MonthFirst),
            _ => None,
        }
    }

    /// The order of a file that was read to its end: the proven one, else the one in which its times rise or fall, else the habit.
    pub fn decided(&self) -> Option<Order> {
        if self.day_first && self.month_first {
            return None;
        }
        match self.unsorted.map(|[falls, rises]| !(falls && rises)) {
            _ if self.proven().is_some() => self.proven(),
            [true, false] => Some(Order::DayFirst),
            [false, true] => Some(Order::MonthFirst),
            _ => self.habit,
        }
    }
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// Names of zones with their hours from UTC.
const ZONES: [(&str, i64); 13] = [
    ("utc", 0),
    ("gmt", 0),
    ("z", 0),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
    ("cet", 1),
    ("cest", 2),
];

/// Reads a time: seconds or milliseconds since 1970, or a date. A date may have a time of day, a half of the day and a zone, as in
/// `2026-11-20T10:00:00+0100`, `20-11-2026 10:00:00` or `Nov 20, 2026 10:00 AM`. Without a zone it is UTC.
pub(crate) fn read(cell: &str) -> Option<Reading> {
    let cell = cell.trim();
    if let Ok(number) = cell.parse::<f64>() {
        let seconds = if number > 1e11 { number / 1000.0 } else { number };
        return (1e9..4.3e9).contains(&seconds).then_some(Reading::certain(seconds as u64));
    }
    let (mut clock, mut seconds_east, mut afternoon) = ("00:00".to_owned(), 0, None);
    let (mut numbers, mut name, mut separator) = (Vec::new(), None, ' ');
    for word in words(cell) {
        let lower = word.to_ascii_lowercase();
        let letters = lower.replace('.', "");
        if word.contains(':') && !word.starts_with(['+', '-']) && clock == "00:00" {
            let end = word.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(word.len());
            clock = word[..end].to_owned();
            let rest = word[end..].trim_start_matches('.').trim_start_matches(|c: char| c.is_ascii_digit());
            match rest.to_ascii_lowercase().as_str() {
                "" => {}
                half @ ("am" | "pm") => afternoon = Some(half == "pm"),
                zone => seconds_east = zone_of(zone)?,
            }
        } else if matches!(letters.as_str(), "am" | "pm") {
            afternoon = Some(letters == "pm");
        } else if let Some(month) = MONTHS.iter().position(|month| is_month(&lower, month)) {
            name = Some(month as u32 + 1);
        } else if word.starts_with(['+', '-']) || ZONES.iter().any(|(zone, _)| *zone == lower) {
            seconds_east = zone_of(&lower)?;
        } else if lower.starts_with(|c: char| c.is_ascii_digit()) {
            separator = word.chars().find(|c| !c.is_ascii_alphanumeric()).unwrap_or(separator);
            for part in word.split(['-', '/', '.']).filter(|part| !part.is_empty()) {
                let lower = part.to_ascii_lowercase();
                match MONTHS.iter().position(|month| is_month(&lower, month)) {
                    Some(month) => name = Some(month as u32 + 1),
                    None => numbers.push(part.trim_end_matches(char::is_alphabetic).parse::<u32>().ok()?),
                }
            }
        } else if !is_weekday(&lower) && lower != "at" {
            return None;
        }
    }
    if let Some(afternoon) = afternoon {
        let (hour, rest) = clock.split_once(':')?;
        let hour: u32 = hour.parse().ok().filter(|hour| (1..=12).contains(hour))?;
        clock = format!("{}:{rest}", hour % 12 + if afternoon { 12 } else { 0 });
    }
    let at = |year: u32, month: u32, day: u32| {
        let year = if year < 100 { year + 2000 } else { year };
        let utc = utc_seconds(&format!("{year:04}-{month:02}-{day:02} {clock}"))?;
        u64::try_from(i64::try_from(utc).ok()? - seconds_east).ok()
    };
    match (name, &numbers[..]) {
        (None, &[year, month, day]) if year > 31 => at(year, month, day).map(Reading::certain),
        (None, &[first, second, year]) => {
            let habit = match separator {
                '/' if afternoon.is_some() => Some(Order::MonthFirst),
                '/' => None,
                _ => Some(Order::DayFirst),
            };
            let (day_first, month_first) = (at(year, second, first), at(year, first, second));
            day_first.or(month_first)?;
            Some(Reading { day_first, month_first, habit })
        }
        (Some(month), &[year, day]) if year > 31 => at(year, month, day).map(Reading::certain),
        (Some(month), &[day, year]) => at(year, month, day).map(Reading::certain),
        _ => None,
    }
}

/// The words of a time: its pieces between white space and commas. A `T` between digits separates too, and so do brackets.
fn words(cell: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(cell.len());
    let chars: Vec<char> = cell.chars().collect();
    for (at, c) in chars.iter().enumerate() {
        let digit = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(char::is_ascii_digit);
        let is_break = c.is_whitespace() || matches!(c, ',' | '(' | ')' | '[' | ']' | '"');
        let is_t = matches!(c, 'T' | 't') && digit(at.checked_sub(1)) && digit(Some(at + 1));
        spaced.push(if is_break || is_t { ' ' } else { *c });
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

fn is_month(word: &str, month: &str) -> bool {
    word.starts_with(month)
        && word.len() < 10
        && word.trim_end_matches('.').bytes().all(|b| b.is_ascii_alphabetic())
}

fn is_weekday(word: &str) -> bool {
    ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].iter().any(|day| word.starts_with(day))
}

/// The seconds east of UTC of `z`, `+0100`, `+01:00`, `-05` or a name.
fn zone_of(zone: &str) -> Option<i64> {
    if let Some((_, hours)) = ZONES.iter().find(|(name, _)| *name == zone) {
        return Some(hours * 3600);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits = zone.strip_prefix(['+', '-'])?.replace(':', "");
    let digits = if digits.len() == 2 { format!("{digits}00") } else { digits };
    let number: i64 = Some(&digits).filter(|digits| digits.len() == 4)?.parse().ok()?;
    Some(sign * (number / 100 * 3600 + number % 100 * 60))
}

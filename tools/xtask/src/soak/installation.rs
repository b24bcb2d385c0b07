//! The state file of `mailprobe clean`, made older: an hour must pass before a site's budget of refused recipients is free again,
//! and no campaign has this hour.
//!
//! The file is text: lines `site KEY STEP:REFUSED:ACCEPTED ...`, where a step is five minutes, and a last line with a checksum.

use crate::failure::{Context, Failure, ensure};
use ring::digest::{SHA256, digest};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of a step of the counts.
pub const STEP: Duration = Duration::from_secs(300);
/// The age in steps at which a step of the counts still counts, but not in the next step.
const LAST_AGE: u64 = 12;

/// The number of the current step, and the time until the next one.
pub fn step_now() -> (u64, Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let step = now.as_secs() / STEP.as_secs();
    (step, Duration::from_secs((step + 1) * STEP.as_secs()).saturating_sub(now))
}

/// Makes all refusals of a state file so old that they end to count with the current step of five minutes.
///
/// # Errors
///
/// The file cannot be read or written, or has no refusals.
pub fn expire_with_this_step(file: &Path) -> Result<(), Failure> {
    let (now, _) = step_now();
    let counts = rewrite(file, |_| now - LAST_AGE)?;
    ensure!(counts > 0, "{}: no counts of refused recipients in it", file.display());
    Ok(())
}

/// Makes all refusals of a state file, if it has any, so old that they no longer count: an hour passes.
///
/// # Errors
///
/// The file cannot be read or written.
pub fn pass_an_hour(file: &Path) -> Result<(), Failure> {
    rewrite(file, |step| step - LAST_AGE - 1).map(drop)
}

/// Gives the counts other steps, and returns their number.
fn rewrite(file: &Path, new_step: impl Fn(u64) -> u64) -> Result<usize, Failure> {
    let text = fs::read_to_string(file).at(file)?;
    let (aged, counts) = aged(&text, new_step).ok_or("not a state file").at(file)?;
    fs::write(file, aged).at(file)?;
    // No run is alive. The next one makes the table of live counts anew from the state file.
    let mut live = file.as_os_str().to_owned();
    live.push(".live");
    match fs::remove_file(&live) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).at(file),
        _ => Ok(counts),
    }
}

/// The text with other numbers of steps and the checksum for it, and the number of steps. `None`: it is no such file.
fn aged(text: &str, new_step: impl Fn(u64) -> u64) -> Option<(String, usize)> {
    let (body, end) = text.trim_end().rsplit_once('\n')?;
    let mut counts = 0;
    let mut aged = String::new();
    for line in body.lines() {
        let mut words = line.split(' ').map(|word| {
            let count = word.split_once(':').and_then(|(step, rest)| Some((step.parse().ok()?, rest)));
            match count.filter(|_| line.starts_with("site ")) {
                Some((step, rest)) => {
                    counts += 1;
                    format!("{}:{rest}", new_step(step))
                }
                None => word.to_owned(),
            }
        });
        aged += &words.next()?;
        words.for_each(|word| aged = format!("{aged} {word}"));
        aged.push('\n');
    }
    let (before, _) = end.strip_prefix("end ")?.rsplit_once(' ')?;
    let sum = digest(&SHA256, aged.as_bytes());
    let sum: String = sum.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Some((format!("{aged}end {before} {sum}\n"), counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_steps_and_the_checksum_change() {
        let text = "mailprobe state 1\nsecret 0a:1\nsite 00ff 500:3:4 501:1:0\nend 1 0123456789abcdef\n";
        let (aged, counts) = aged(text, |step| step - 13).unwrap();
        assert_eq!(counts, 2);
        let lines: Vec<&str> = aged.lines().collect();
        assert_eq!(lines[..3], ["mailprobe state 1", "secret 0a:1", "site 00ff 487:3:4 488:1:0"]);
        assert!(lines[3].starts_with("end 1 ") && !lines[3].ends_with("0123456789abcdef"));
        assert_eq!(super::aged("mailprobe state 1\nsecret 00\nend 0 00\n", |step| step).unwrap().1, 0);
        assert_eq!(super::aged("email\nuser@example.com\n", |step| step), None);
    }
}

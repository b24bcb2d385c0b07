//! The names of the parts of a list beside its output.

use super::{ListPart, NAME_MIDDLE, NAME_START, number};
use std::collections::BTreeSet;
use std::path::Path;

/// How many missing parts a message names.
const NAMED_MAX: usize = 5;

/// The names of parts beside an output file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartNames {
    /// Complete parts: the number of parts and the index.
    complete: BTreeSet<(u32, u32)>,
    /// Parts that a run has not ended.
    partial: BTreeSet<(u32, u32)>,
}

impl PartNames {
    /// Adds a name by what follows the name of the whole list. Other names are not of parts.
    pub fn add(&mut self, rest: &[u8]) {
        let rest = std::str::from_utf8(rest).ok().and_then(|rest| rest.strip_prefix(NAME_START));
        let Some((index, rest)) = rest.and_then(|rest| rest.split_once(NAME_MIDDLE)) else { return };
        let (count, names) = match rest.strip_suffix(".partial") {
            Some(count) => (count, &mut self.partial),
            None => (rest, &mut self.complete),
        };
        if let (Some(index), Some(count)) = (number(index), number(count)) {
            names.insert((count, index));
        }
    }

    /// The number of parts, all of which are there.
    ///
    /// # Errors
    /// One line: a part is missing or incomplete, or there are others.
    pub fn count(&self, output: &Path) -> Result<u32, String> {
        let name = output.display();
        let counts: BTreeSet<u32> = self.complete.union(&self.partial).map(|(count, _)| *count).collect();
        let count = match counts.iter().copied().collect::<Vec<_>>()[..] {
            [] => return Err(format!("{name} has no parts: make them with --part I/N")),
            [count] => count,
            [first, second, ..] => {
                return Err(format!(
                    "{name} has parts of {first} and parts of {second}: move those that you do not need to another folder"
                ));
            }
        };
        let surplus =
            self.complete.union(&self.partial).find_map(|&(_, index)| ListPart::new(index, count).err());
        if let Some(why) = surplus {
            return Err(format!("a file beside {name} has the name of a part that cannot exist: {why}"));
        }
        if let Some((_, index)) = self.partial.first() {
            return Err(format!(
                "part {index} of {count} is not finished: continue it with --part {index}/{count} --resume"
            ));
        }
        let missing: Vec<u32> =
            (0..count).filter(|index| !self.complete.contains(&(count, *index))).collect();
        match missing[..] {
            [] => Ok(count),
            [index] => {
                Err(format!("part {index} of {count} is missing: make it with --part {index}/{count}"))
            }
            [..] => Err(format!(
                "{} of {count} parts are missing ({}): make them with --part I/{count}",
                missing.len(),
                listed(&missing)
            )),
        }
    }
}

/// The first numbers, separated by commas.
fn listed(numbers: &[u32]) -> String {
    let named: Vec<String> = numbers.iter().take(NAMED_MAX).map(u32::to_string).collect();
    named.join(", ") + if numbers.len() > NAMED_MAX { ", ..." } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of parts, or the error, for files with these names beside `out`.
    #[track_caller]
    fn check(names: &[&str], expected: Result<u32, &str>) {
        let mut found = PartNames::default();
        names.iter().for_each(|name| found.add(name.as_bytes()));
        let count = found.count(Path::new("out"));
        assert_eq!(count.as_ref().copied().map_err(String::as_str), expected, "{names:?}");
    }

    #[test]
    fn all_parts_of_one_number_are_needed() {
        check(&[".part-0-of-1"], Ok(1));
        check(
            &[".part-1-of-2", ".part-0-of-2", ".part-0-of-2.state", ".part-0-of-2.old", ".part-00-of-2", ""],
            Ok(2),
        );
        check(&[], Err("out has no parts: make them with --part I/N"));
        check(
            &[".partial", ".part-0-of-", "x.part-0-of-1"],
            Err("out has no parts: make them with --part I/N"),
        );
        check(&[".part-0-of-3", ".part-2-of-3"], Err("part 1 of 3 is missing: make it with --part 1/3"));
        check(
            &[".part-7-of-9"],
            Err("8 of 9 parts are missing (0, 1, 2, 3, 4, ...): make them with --part I/9"),
        );
        check(
            &[".part-0-of-2", ".part-1-of-2.partial"],
            Err("part 1 of 2 is not finished: continue it with --part 1/2 --resume"),
        );
        // A second run of a complete part.
        check(
            &[".part-0-of-2", ".part-1-of-2", ".part-0-of-2.partial"],
            Err("part 0 of 2 is not finished: continue it with --part 0/2 --resume"),
        );
        check(
            &[".part-0-of-2", ".part-1-of-2", ".part-1-of-3"],
            Err("out has parts of 2 and parts of 3: move those that you do not need to another folder"),
        );
        check(
            &[".part-0-of-2", ".part-1-of-2", ".part-2-of-2"],
            Err(
                "a file beside out has the name of a part that cannot exist: the first of 2 parts is 0, the last one is 1",
            ),
        );
        check(
            &[".part-0-of-5000"],
            Err(
                "a file beside out has the name of a part that cannot exist: the number of parts is 1 to 4096",
            ),
        );
    }
}

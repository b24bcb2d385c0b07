//! The verdicts of one interface beside the expected ones.

use super::drivers::{AddressAnswer, Round};
use super::process;
use super::report::Tally;
use crate::failure::Failure;

/// Compares the results of one interface with rows of name, address and expected reason. If the interface fails, all rows fail.
pub fn judge_rows<'a>(
    way: &str,
    rows: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
    round: Result<Round, Failure>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    process::interrupted()?;
    let round =
        round.unwrap_or_else(|Failure(message)| Round { complaints: vec![message], ..Round::default() });
    for (name, address, reason) in rows {
        tally.check(&format!("{way} {name}"), judge(reason, round.answers.get(address)));
    }
    let smooth = round.complaints.is_empty();
    tally.check(way, if smooth { Ok("nothing else".into()) } else { Err(round.complaints.join("\n")) });
    Ok(())
}

/// Compares a verdict with the expected reason.
fn judge(expected: &str, said: Option<&AddressAnswer>) -> Result<String, String> {
    let Some(AddressAnswer { deliverable, reason }) = said else { return Err("no answer".into()) };
    if reason == expected && *deliverable == matches!(expected, "mailbox_exists" | "role_account") {
        return Ok(reason.clone());
    }
    Err(format!("{reason} (deliverable {deliverable}), not {expected}"))
}

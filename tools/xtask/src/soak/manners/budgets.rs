//! Refused recipients of one host: how many in an hour, over two runs; and hosts that have nothing to refuse.

use super::{Check, HOST, Outcome, Place, check, count, holds, rows};
use crate::soak::Failure;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// What a host of which nothing is known is asked for in an hour.
const STRANGE_MAX: u64 = 100;
/// What Cisco's gateways allow by default.
const CISCO_MAX: u64 = 25;
/// Longer than this and a list of existing mailboxes does not finish in any useful time.
const EXISTING_LIMIT: Duration = Duration::from_secs(600);

pub fn checks() -> Vec<Check> {
    let cisco = "{ personality = \"cisco-hosted\", changes = [{ after = 25, counted = \"client\", \
                 within_ms = 3600000, to = \"reply\", text = \"550 Too many invalid recipients\" }] }";
    vec![
        check("unknown recipients of a strange host", |place| {
            unknown(place, "strange", "{ personality = \"generic\" }", STRANGE_MAX)
        }),
        check("unknown recipients of a Cisco gateway", |place| unknown(place, "cisco", cisco, CISCO_MAX)),
        check("existing recipients of one host", existing),
    ]
}

/// Two runs of one installation, each with a list of unknown recipients of its own.
fn unknown(place: &Place<'_>, name: &str, server: &str, most: u64) -> Result<Outcome, Failure> {
    let net = place.net(server)?;
    let size = place.of(3000, 600);
    let (mut refused, mut took, mut confirmed) = (Vec::new(), Vec::new(), 0);
    for run in 0..2 {
        let rows = rows("gone", run * size..(run + 1) * size);
        let cleaned = place.clean(&net, &format!("{name}-{run}"), name, &rows)?;
        refused.push(net.journal().refusals_within(HOST, HOUR));
        took.push(format!("{:.0} s", cleaned.took.as_secs_f64()));
        confirmed += size - count(&cleaned, "mailbox_not_found") - count(&cleaned, "unverifiable");
    }
    let journal = net.journal();
    let last = refused.last().copied().unwrap_or(u64::MAX);
    let is_within = last <= most && refused.iter().all(|&count| count > 0) && journal.lost == 0;
    let figures = format!(
        "{} refusals after the first run of {size}, {last} after the second ({}), at most {most}; {confirmed} neither \
         not_found nor unverifiable",
        refused.first().unwrap_or(&0),
        took.join(" and ")
    );
    Ok(holds(is_within && confirmed == 0, figures))
}

fn existing(place: &Place<'_>) -> Result<Outcome, Failure> {
    let net = place.net("{ personality = \"generic\" }")?;
    let size = place.of(3000, 600);
    let cleaned = place.clean(&net, "existing", "existing", &rows("real", 0..size))?;
    let right = count(&cleaned, "mailbox_exists");
    let figures = format!("{right} of {size} confirmed in {:.0} s", cleaned.took.as_secs_f64());
    Ok(holds(right == size && cleaned.took <= EXISTING_LIMIT, figures))
}

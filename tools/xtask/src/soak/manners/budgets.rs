//! Refused recipients of one host: their number in an hour, over two runs; and hosts that refuse nobody.

use super::{CheckOutcome, CheckSetting, HOST, MannersCheck, check, count, rows};
use crate::interop::report::outcome;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// The hourly budget at an unknown host.
const STRANGE_MAX: u64 = 100;
/// The default limit of Cisco gateways.
const CISCO_MAX: u64 = 25;
/// The longest useful time of a list of existing mailboxes.
const EXISTING_LIMIT: Duration = Duration::from_secs(600);

/// The checks of hourly budgets, which need processor time.
pub fn checks() -> Vec<MannersCheck> {
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

/// Makes two runs of one installation, each with another list of unknown recipients.
fn unknown(place: &CheckSetting<'_>, name: &str, server: &str, most: u64) -> CheckOutcome {
    let net = place.net(server)?;
    let size = place.of(3000, 600);
    let (mut refused, mut took, mut confirmed) = (Vec::new(), Vec::new(), 0);
    for run in 0..2 {
        let rows = rows("gone", run * size..(run + 1) * size);
        let cleaned = place.clean(&net, (&format!("{name}-{run}"), name), &rows, &[])?;
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
    outcome(is_within && confirmed == 0, figures)
}

fn existing(place: &CheckSetting<'_>) -> CheckOutcome {
    let net = place.net("{ personality = \"generic\" }")?;
    let size = place.of(3000, 600);
    let cleaned = place.clean(&net, ("existing", "existing"), &rows("real", 0..size), &[])?;
    let right = count(&cleaned, "mailbox_exists");
    let figures = format!("{right} of {size} confirmed in {:.0} s", cleaned.took.as_secs_f64());
    outcome(right == size && cleaned.took <= EXISTING_LIMIT, figures)
}

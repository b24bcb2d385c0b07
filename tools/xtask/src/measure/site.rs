//! A million existing addresses of one site that refuses the control recipient, compared with smtp-source for as many
//! recipients and as many per MAIL.

use super::bench::{Bench, TableRow};
use super::setting::{ONE_SITE, PeerAddresses, SERVER, SampleList};
use crate::failure::Failure;
use crate::interop::report::{self, Tally};
use std::time::Duration;

const LIST: SampleList = SampleList { domains: 1, each: 1_000_000, rounds: 1 };
const LIMIT: Duration = Duration::from_secs(600);

/// Measures both, and counts whether all verdicts are right.
pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    TableRow::head();
    let mailnet = bench.world.mailnet(&format!("{ONE_SITE}{SERVER}"))?;
    let peers = (&PeerAddresses::of(&mailnet), "mailnet, one site");
    let ours = bench.measure(LIST, peers, &["--pace", "lab"], &|_| "mailbox_exists", LIMIT)?;
    ours.check(tally);
    let counted = mailnet.stop()?;
    let count = |name: &str| counted.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let (mail, rcpt, sessions) = (count("mail"), count("rcpt"), count("sessions"));
    // As many recipients per MAIL as mailprobe had on average, so that the same work is compared.
    let each = (rcpt / mail.max(1)).max(1);
    let sink = bench.sink(&[])?;
    for sessions in [1, 20] {
        let cost = bench.source(sessions, LIST.len(), each)?;
        let client = format!("smtp-source, {sessions} sessions, {each} RCPT per MAIL");
        let theirs = TableRow { client, peer: "smtp-sink".into(), addresses: LIST.len(), right: None, cost };
        theirs.print();
        report::line(&format!(
            "mailprobe's CPU time per RCPT is {:.2} of smtp-source's",
            ours.per_thousand() / theirs.per_thousand()
        ));
    }
    drop(sink);
    report::line(&format!("mailnet counted {rcpt} RCPT in {mail} MAIL over {sessions} sessions\n"));
    Ok(())
}

//! A million existing addresses of one site, whose control recipient is refused, beside what smtp-source pays for as
//! many recipients with as many to a MAIL.

use super::setting::{List, ONE_SITE, Peers, SERVER};
use super::{Bench, Failure, Row};
use crate::interop::report::{self, Tally};
use std::time::Duration;

const LIST: List = List { domains: 1, each: 1_000_000, rounds: 1 };
const LIMIT: Duration = Duration::from_secs(600);

pub fn run(bench: &Bench, tally: &mut Tally) -> Result<(), Failure> {
    Row::head();
    let mailnet = bench.world.mailnet(&format!("{ONE_SITE}{SERVER}"))?;
    let flags = ["--pace", "lab"];
    let (cost, right) = bench.measure(LIST, &Peers::of(&mailnet), &flags, &|_| "mailbox_exists", LIMIT)?;
    let ours = Row {
        client: "mailprobe clean --pace lab".into(),
        peer: "mailnet, one site".into(),
        addresses: LIST.len(),
        right: Some(right),
        cost,
    };
    ours.check(tally);
    let counted = mailnet.stop()?;
    let count = |name: &str| counted.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let (mail, rcpt, sessions) = (count("mail"), count("rcpt"), count("sessions"));
    // As many recipients to a MAIL as mailprobe had on average: the same work is compared.
    let each = (rcpt / mail.max(1)).max(1);
    let sink = bench.sink(&[])?;
    for sessions in [1, 20] {
        let cost = bench.source(sessions, LIST.len(), each)?;
        let client = format!("smtp-source, {sessions} sessions, {each} RCPT a MAIL");
        let theirs = Row { client, peer: "smtp-sink".into(), addresses: LIST.len(), right: None, cost };
        theirs.print();
        report::line(&format!(
            "mailprobe's CPU time per RCPT is {:.2} of smtp-source's",
            ours.per_thousand() / theirs.per_thousand()
        ));
    }
    drop(sink);
    report::line(&format!("mailnet heard {rcpt} RCPT in {mail} MAIL over {sessions} sessions\n"));
    Ok(())
}

//! The comparison of what clients were told with the service. These are pure functions; a table of tests shows that each
//! of them can fail.

use super::world::{Credits, Ledger};
use crate::failure::ensure;
use mailnet::Scenario;
use serde_json::Value;

/// The credits that an account must have paid, and those that it may have paid.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The credits that the account has got, if that is known. Then none may have expired.
    pub granted: Option<u64>,
    /// Credits of acknowledged requests.
    pub paid: u64,
    /// Credits of requests whose answer is missing or does not state the charge.
    pub open: u64,
    /// The part of both that belongs to batches and lists, which the server continues after a restart. Nothing else is
    /// held after a start.
    pub lasting: u64,
    /// How many such batches and lists there are.
    pub lasting_count: u64,
}

impl Claim {
    /// The claim after all requests were answered.
    pub fn exact(granted: u64, paid: u64) -> Claim {
        Claim { granted: Some(granted), paid, ..Claim::default() }
    }
}

/// The allowed reasons of an address. If there are none, any reason is right.
pub type Reasons = Vec<String>;

/// Rows that all must have this reason.
pub fn alike(rows: &[String], reason: &str) -> Vec<(String, Reasons)> {
    rows.iter().map(|row| (row.clone(), vec![reason.to_owned()])).collect()
}

/// Compares the ledger of an account with its claim. Holds of a batch count as paid, since its answer has acknowledged
/// them.
pub fn account(name: &str, claim: &Claim, ledger: &Credits) -> Result<(), String> {
    let paid = ledger.spent + ledger.held;
    let complain = |what: &str| Err(format!("{name}: {what}: {claim:?}, {ledger:?}"));
    if !ledger.add_up() {
        return complain("the credits do not add up");
    }
    if claim.granted.is_some_and(|granted| granted != ledger.granted || ledger.expired != 0) {
        return complain("other credits were granted, or some expired");
    }
    if paid < claim.paid {
        return complain("an acknowledged charge is missing");
    }
    if paid > claim.paid + claim.open {
        return complain("something was charged twice, or for nothing");
    }
    Ok(())
}

/// Compares the held credits after a start, while no request is under way.
pub fn held(name: &str, claim: &Claim, ledger: &Credits) -> Result<(), String> {
    if ledger.held > claim.lasting {
        return Err(format!("{name}: {} held and {} can be: {claim:?}", ledger.held, claim.lasting));
    }
    Ok(())
}

/// Compares the whole ledger of an account with its claim: its credits, its holds, and what the store's own audit finds.
pub fn ledger(name: &str, claim: &Claim, ledger: &Ledger) -> Result<String, String> {
    account(name, claim, &ledger.credits)?;
    held(name, claim, &ledger.credits)?;
    audit(name, claim, ledger)?;
    Ok(format!("{} spent", ledger.credits.spent))
}

/// Checks that the store's own audit finds no fault, and no more holds than the claim has.
pub fn audit(name: &str, claim: &Claim, ledger: &Ledger) -> Result<(), String> {
    ensure!(ledger.faults.is_empty(), "{name}: the audit finds {}", ledger.faults.join(", "));
    if ledger.open_holds > claim.lasting_count {
        return Err(format!("{name}: more holds than batches and lists: {claim:?}, {ledger:?}"));
    }
    Ok(())
}

/// Checks the answer 200 to a full check: whether it is a repeat of the account, and whether that is possible.
pub fn single(
    is_repeat: bool,
    in_doubt: bool,
    reply: &Value,
    email: &str,
    reasons: &Reasons,
) -> Result<(), String> {
    let complain = |what: &str| Err(format!("{email}: {what}: {reply}"));
    let reason = reply["reason"].as_str().unwrap_or_default();
    if reply["email"] != email || !reasons.iter().any(|known| known == reason) {
        return complain(&format!("not one of {reasons:?}"));
    }
    let Some(cached) = reply["cached"].as_bool() else {
        return complain("it does not say whether it is a repeat");
    };
    if reply["credits_remaining"].is_null() != cached {
        return complain("it is a repeat or it is charged");
    }
    match (is_repeat, cached) {
        (true, false) => complain("charged again, though it was acknowledged before"),
        (false, true) if !in_doubt => complain("charged before, though nothing was acknowledged"),
        _ => Ok(()),
    }
}

/// Checks the rows of a complete batch.
pub fn rows(id: &str, expected: &[(String, Reasons)], body: &Value) -> Result<(), String> {
    let results = body["results"].as_array().ok_or_else(|| format!("{id}: no results: {body}"))?;
    if results.len() != expected.len() {
        return Err(format!("{id}: {} rows, and {} were submitted", results.len(), expected.len()));
    }
    for (at, (row, (email, reasons))) in results.iter().zip(expected).enumerate() {
        let reason = row["reason"].as_str().unwrap_or_default();
        let is_right =
            reasons.iter().any(|known| known == reason) || (reasons.is_empty() && !reason.is_empty());
        if row["email"] != email.as_str() || !is_right {
            return Err(format!("{id}: row {at} is {row}, and {email} is one of {reasons:?}"));
        }
    }
    Ok(())
}

/// Compares the download of a complete list with its upload; `verdicts` has the allowed reasons of each row.
pub fn list(name: &str, uploaded: &str, verdicts: &[Reasons], downloaded: &str) -> Result<(), String> {
    let (before, after): (Vec<&str>, Vec<&str>) = (uploaded.lines().collect(), downloaded.lines().collect());
    if before.len() != after.len() || before.len() != verdicts.len() + 1 {
        return Err(format!("{name}: {} lines for {}", after.len(), before.len()));
    }
    if after[0] != format!("{},deliverable,reason", before[0]) {
        return Err(format!("{name}: begins with {}", after[0]));
    }
    for ((row, result), reasons) in before.iter().zip(&after).skip(1).zip(verdicts) {
        let verdict = result.strip_prefix(row).and_then(|rest| rest.strip_prefix(','));
        let reason = verdict.and_then(|verdict| verdict.split_once(',')).map_or("", |(_, reason)| reason);
        if !reasons.iter().any(|known| known == reason) {
            return Err(format!("{name}: {result:?} for {row:?}, which is one of {reasons:?}"));
        }
    }
    Ok(())
}

/// Compares two readings of the same document.
pub fn same(what: &str, first: &[u8], again: &[u8]) -> Result<(), String> {
    if first == again {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
    Err(format!("{what}: {} became {}", text(first), text(again)))
}

/// The reasons that mailnet expects for an address. A greylisting server may accept a batch's second attempt.
pub fn reasons(scenario: &Scenario, email: &str) -> Reasons {
    let expected = scenario.expected(email);
    let mut reasons = vec![expected.reason.as_str().to_owned()];
    if expected.patient != expected.reason {
        reasons.push(expected.patient.as_str().to_owned());
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CLAIM: Claim = Claim { granted: None, paid: 10, open: 3, lasting: 5, lasting_count: 2 };

    fn ledger(spent: u64, held: u64) -> Credits {
        Credits { available: 100 - spent - held, held, spent, expired: 0, granted: 100 }
    }

    #[test]
    fn the_ledger_has_each_acknowledged_charge_once() {
        let check = |ledger: Credits| account("a", &CLAIM, &ledger).err().unwrap_or_default();
        for (spent, held) in [(10, 0), (13, 0), (5, 5), (8, 5)] {
            assert_eq!(check(ledger(spent, held)), "", "{spent} {held}");
        }
        assert!(check(ledger(9, 0)).contains("is missing"));
        assert!(check(ledger(4, 5)).contains("is missing"));
        assert!(check(ledger(14, 0)).contains("charged twice"));
        assert!(check(ledger(9, 5)).contains("charged twice"));
        assert!(check(Credits { granted: 101, ..ledger(10, 0) }).contains("do not add up"));
        assert!(account("a", &Claim::exact(100, 10), &ledger(10, 0)).is_ok());
        assert!(account("a", &Claim::exact(99, 10), &ledger(10, 0)).is_err());
        // After every request is answered, a difference of one credit is a fault.
        let settled = Claim { paid: 10, ..Claim::default() };
        for (spent, is_right) in [(9, false), (10, true), (11, false)] {
            assert_eq!(account("a", &settled, &ledger(spent, 0)).is_ok(), is_right, "{spent}");
        }
    }

    #[test]
    fn nothing_is_held_but_for_batches_and_lists() {
        assert!(held("a", &CLAIM, &ledger(8, 5)).is_ok());
        assert!(held("a", &CLAIM, &ledger(8, 6)).is_err());
        assert!(held("a", &Claim { lasting: 0, ..CLAIM }, &ledger(10, 1)).is_err());
        let audited = |open_holds, faults: &[&str]| {
            let faults = faults.iter().map(|&fault| fault.to_owned()).collect();
            audit("a", &CLAIM, &Ledger { credits: ledger(8, 5), open_holds, faults }).is_ok()
        };
        assert!(audited(0, &[]) && audited(2, &[]) && !audited(3, &[]) && !audited(0, &["a fault"]));
    }

    #[test]
    fn a_check_is_charged_once() {
        let reasons = vec!["mailbox_exists".to_owned()];
        let check = |is_repeat, in_doubt, cached: bool| {
            let credits = if cached { Value::Null } else { json!(7) };
            let reply = json!({ "email": "a@b", "reason": "mailbox_exists", "cached": cached, "credits_remaining": credits });
            single(is_repeat, in_doubt, &reply, "a@b", &reasons).is_ok()
        };
        // (a repeat of an acknowledged check, an attempt without an answer before it, answered as a repeat)
        assert!(check(false, false, false) && check(false, true, false) && check(false, true, true));
        assert!(check(true, false, true) && check(true, true, true));
        assert!(!check(false, false, true), "charged by an attempt that said that nothing was");
        assert!(!check(true, false, false) && !check(true, true, false), "charged a second time");
        for broken in [
            json!({ "email": "a@b", "reason": "catch_all", "cached": false, "credits_remaining": 7 }),
            json!({ "email": "c@d", "reason": "mailbox_exists", "cached": false, "credits_remaining": 7 }),
            json!({ "email": "a@b", "reason": "mailbox_exists", "cached": false, "credits_remaining": null }),
            json!({ "email": "a@b", "reason": "mailbox_exists", "credits_remaining": 7 }),
        ] {
            assert!(single(false, false, &broken, "a@b", &reasons).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_batch_has_each_row_once_and_in_order() {
        let one = |email: &str| (email.to_owned(), vec!["ok".to_owned(), "later".to_owned()]);
        let expected = [one("a@x"), one("b@x"), one("c@x")];
        let check = |results: &[(&str, &str)]| {
            let results: Vec<Value> =
                results.iter().map(|(email, reason)| json!({ "email": email, "reason": reason })).collect();
            rows("bat", &expected, &json!({ "results": results })).is_ok()
        };
        assert!(check(&[("a@x", "ok"), ("b@x", "later"), ("c@x", "ok")]));
        for broken in [
            &[("a@x", "ok"), ("b@x", "ok")][..],
            &[("a@x", "ok"), ("b@x", "ok"), ("c@x", "ok"), ("c@x", "ok")],
            &[("a@x", "ok"), ("a@x", "ok"), ("c@x", "ok")],
            &[("b@x", "ok"), ("a@x", "ok"), ("c@x", "ok")],
            &[("a@x", "ok"), ("b@x", "not_found"), ("c@x", "ok")],
            &[],
        ] {
            assert!(!check(broken), "{broken:?}");
        }
        assert!(rows("bat", &expected, &json!({ "status": "processing", "results": null })).is_err());
        let any = [("a@x".to_owned(), Vec::new())];
        let of = |reason: &str| json!({ "results": [{ "email": "a@x", "reason": reason }] });
        assert!(rows("bat", &any, &of("later")).is_ok() && rows("bat", &any, &of("")).is_err());
    }

    #[test]
    fn a_list_comes_back_with_a_verdict_behind_each_row() {
        let uploaded = "id,email\n0,a@x\n1,none\n";
        let verdicts = [vec!["ok".to_owned()], vec!["invalid_syntax".to_owned()]];
        let check = |downloaded: &str| list("l", uploaded, &verdicts, downloaded).is_ok();
        assert!(check("id,email,deliverable,reason\n0,a@x,true,ok\n1,none,false,invalid_syntax\n"));
        for broken in [
            "",
            "id,email\n0,a@x,true,ok\n1,none,false,invalid_syntax\n",
            "id,email,deliverable,reason\n0,a@x,true,ok\n",
            "id,email,deliverable,reason\n0,a@x,true,ok\n0,a@x,true,ok\n",
            "id,email,deliverable,reason\n1,none,false,invalid_syntax\n0,a@x,true,ok\n",
            "id,email,deliverable,reason\n0,a@x,true,later\n1,none,false,invalid_syntax\n",
            "id,email,deliverable,reason\n0,a@x,true,ok\n1,none,false,invalid_syntax\n1,none,false,invalid_syntax\n",
        ] {
            assert!(!check(broken), "{broken:?}");
        }
    }

    #[test]
    fn what_is_read_again_is_the_same() {
        assert!(same("it", b"abc", b"abc").is_ok());
        assert!(same("it", b"abc", b"abd").unwrap_err().contains("abc became abd"));
    }
}

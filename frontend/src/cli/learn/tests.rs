use super::*;
use learn::Evidence;
use std::fs;
use tempfile::TempDir;

const BOUNCE: &str = "Date: {date}\nTo: news@sender.example\nContent-Type: multipart/report; report-type=delivery-status; \
    boundary=b\n\n--b\n\nIt failed.\n\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mail.sender.example\n\n\
    Final-Recipient: rfc822; {address}\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no such user\n\n--b--\n";

const NOW: u64 = 1_795_700_000;

fn bounce(address: &str) -> String {
    BOUNCE.replace("{address}", address).replace("{date}", "Wed, 25 Nov 2026 10:00:00 +0100")
}

#[test]
fn files_are_read_into_one_table() {
    let folder = TempDir::new().unwrap();
    let (first, second) = (folder.path().join("a.eml"), folder.path().join("b.csv"));
    fs::write(&first, bounce("joe@example.com")).unwrap();
    fs::write(&second, "email,event,timestamp\nann@example.com,delivered,2026-11-01T10:00:00Z\n").unwrap();
    let file = TableFile::new(folder.path().join("learned"));
    let files = [first, second];
    let tally = file.update(|table| read_all(&files, table, NOW)).map_err(Failure::from).ok().unwrap();
    let text = report(2, &tally);
    assert_eq!(
        text,
        "files: 2, messages: 1 (bounces and reports: 1, others: 0), rows: 1 (other events: 0)\n\
         definite bounces: 1 (mailbox does not exist 1)\n\
         deliveries: 1 (they count after 5 days without a failure)\n"
    );
    let table = file.read().unwrap().unwrap();
    let known = |text: &str| table.evidence(&Address::parse(text).unwrap(), NOW);
    assert!(matches!(known("joe@example.com"), Some(Evidence::Bounced { .. })));
    assert!(matches!(known("ann@example.com"), Some(Evidence::Delivered { .. })));
    assert_eq!(
        counts_text(&table.counts(NOW)),
        "2 addresses; 1 with a bounce and 1 with a delivery that count now; the newest event is of 2026-11-25T09:00:00Z"
    );
}

#[test]
fn one_address_is_told_in_the_singular() {
    for (addresses, expected) in [(0, "0 addresses; "), (1, "1 address; "), (2, "2 addresses; ")] {
        let counts = learn::TableCounts { addresses, ..learn::TableCounts::default() };
        assert!(counts_text(&counts).starts_with(expected), "{addresses}");
    }
}

#[test]
fn a_file_with_nothing_to_learn_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let (good, bad) = (folder.path().join("a.eml"), folder.path().join("b.txt"));
    fs::write(&good, bounce("joe@example.com")).unwrap();
    fs::write(&bad, "Subject: hello\nFrom: a@b.example\n\nx\n").unwrap();
    let file = TableFile::new(folder.path().join("learned"));
    let files = [good, bad];
    let failure = Failure::from(file.update(|table| read_all(&files, table, NOW)).err().unwrap());
    let line = failure.line.unwrap();
    assert!(line.contains("b.txt: none of its messages (1) is a bounce"), "{line}");
    assert!(line.ends_with("; nothing was learned") && failure.code == 1);
    assert!(file.read().unwrap().is_none());
    let failure =
        Failure::from(file.update(|table| read_all(&[folder.path().into()], table, NOW)).err().unwrap());
    let line = failure.line.unwrap();
    assert!(line.contains("it is a folder; name its files"), "{line}");
}

#[test]
fn an_address_and_the_table_are_forgotten() {
    let folder = TempDir::new().unwrap();
    let file = TableFile::new(folder.path().join("learned"));
    let said = |done: Result<(), Failure>| done.err().and_then(|failure| failure.line).unwrap_or_default();
    assert!(said(list(&file, &mut Vec::new())).contains("there is no table at "));
    assert!(
        said(forget(&file, "joe@example.com", &mut Vec::new()))
            .contains("nothing is known of joe@example.com")
    );
    let message = folder.path().join("a.eml");
    fs::write(&message, bounce("joe@example.com")).unwrap();
    file.update(|table| read_all(&[message], table, NOW)).map_err(Failure::from).ok().unwrap();
    assert_eq!(said(forget(&file, "Joe@Example.com", &mut Vec::new())), "");
    assert!(said(forget(&file, "joe@example.com", &mut Vec::new())).contains("nothing is known of "));
    assert!(said(forget(&file, "joe", &mut Vec::new())).contains("`joe` is not an address: "));
    assert_eq!(said(forget_all(&file, &mut Vec::new())), "");
    assert!(said(forget_all(&file, &mut Vec::new())).contains("there is no table at "));
}

use super::*;
use fastrand::Rng;
use lists::ReadOptions;
use std::io::Cursor;

const DAY: u64 = 24 * 3600;
/// 2026-11-26.
const NOW: u64 = 1_795_700_000;
const OPTIONS: ScoreOptions = ScoreOptions { now: NOW, window_days: 30, checked_at: None };

fn source(list: &str) -> Source {
    let input = Box::new(Cursor::new(list.as_bytes().to_vec()));
    Source::new(input, "cleaned.csv", None, &ReadOptions::default()).unwrap()
}

/// Scores verdicts; `mailed` is empty if there is no such list. The verdicts' file was changed on 2026-11-01.
fn scored(verdicts: &str, mailed: &str, files: &[&str]) -> Result<Score, ScoreError> {
    let mut scorer = Scorer::new(OPTIONS)?;
    scorer.add_verdicts(&mut source(verdicts), "cleaned.csv", lists::utc_seconds("2026-11-01T00:00:00Z"))?;
    if !mailed.is_empty() {
        scorer.add_mailed(&mut source(mailed))?;
    }
    for file in files {
        scorer.add_events(Box::new(Cursor::new(file.as_bytes().to_vec())))?;
    }
    scorer.finish()
}

const VERDICTS: &str = "email,deliverable,reason,provider,checked_at\n\
    a@x.example,true,mailbox_exists,google,2026-11-01T00:00:00Z\n\
    A@x.example,true,mailbox_exists,google,2026-11-01T00:00:00Z\n\
    b@x.example,true,mailbox_exists,google,2026-11-01T00:00:00Z\n\
    c@y.example,false,catch_all,other,2026-11-01T00:00:00Z\n\
    d@y.example,false,catch_all,,2026-11-01T00:00:00Z\n\
    e@y.example,false,catch_all,other,2026-11-01T00:00:00Z\n\
    f@y.example,false,mailbox_not_found,other,2026-11-01T00:00:00Z\n\
    g@y.example,,fast_check_passed,other,2026-11-01T00:00:00Z\n\
    no address,false,invalid_syntax,,2026-11-01T00:00:00Z\n\
    h@y.example,,,,\n";

const EXPORT: &str = "email,event,timestamp,reason\n\
    a@x.example,delivered,2026-11-02T00:00:00Z,\n\
    B@X.example,delivered,2026-11-25T00:00:00Z,\n\
    c@y.example,bounce,2026-11-02T00:00:00Z,550 5.1.1 user unknown\n\
    d@y.example,bounce,2026-11-02T00:00:00Z,550 5.7.1 blocked as spam\n\
    e@y.example,delivered,2026-10-30T00:00:00Z,\n\
    f@y.example,dropped,2026-11-02T00:00:00Z,\n\
    z@y.example,delivered,2026-11-02T00:00:00Z,\n";

const DELIVERY_REPORT: &str = "Date: Wed, 25 Nov 2026 10:00:00 +0100\nTo: news@sender.example\nContent-Type: multipart/report; \
    report-type=delivery-status; boundary=b\n\n--b\n\nIt came.\n\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; \
    mail.sender.example\n\nFinal-Recipient: rfc822; a@x.example\nAction: delivered\nStatus: 2.0.0\n\n--b--\n";

/// An export without deliveries.
const BOUNCES: &str =
    "email,event,timestamp,reason\ng@y.example,bounce,2026-11-02T00:00:00Z,550 5.1.1 user unknown\n";

#[test]
fn a_score_is_text_for_people() {
    let score = scored(VERDICTS, "", &[EXPORT, BOUNCES]).unwrap();
    let expected = "\
3 addresses with an outcome in the 30 days after the verdict: 1 bounced for good.

All                       outcomes     bounced    share   95 % interval          other failures
all                              3           1   33.3 %   3.8 % to 84.2 % *                   1

By deliverable            outcomes     bounced    share   95 % interval          other failures
true                             2           0    0.0 %   0.0 % to 72.3 % *                   0
false                            1           1  100.0 %   12.7 % to 100.0 % *                 1
";
    let text = score.to_string();
    assert!(text.starts_with(expected), "{text}");
    for line in [
        "* fewer than 30 outcomes: the share says little\n",
        "\n- 1 address with other failures, which show nothing about the mailbox: policy or reputation 1\n",
        "\n- 1 address with mail and without a verdict\n",
        "\n- 1 address with mail only before the verdict, or more than 30 days after it\n",
        "\n- 1 address to which the provider sent nothing because of earlier bounces\n",
        "\n- 1 address with failures only in files that are no exports with deliveries: name what was mailed with --mailed FILE\n",
        "\n- 1 row without an address\n- 1 row without a verdict\n",
        "\n- 1 delivery is less than 5 days old and may still come back: score again later\n",
        "\nmailbox_exists ",
        "\ngoogle ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let json = score.json();
    assert_eq!(json["all"]["outcomes"], 3);
    assert_eq!(json["by_reason"][0]["reason"], "mailbox_exists");
    assert_eq!(json["by_reason_and_provider"][0]["provider"], "google");
    assert_eq!(json["left_out"]["mailed_without_verdict"], 1);
    let page = score.page("<cleaned>".to_owned(), "0", Some("mailprobe".to_owned()));
    assert!(page.contains("<h1>&lt;cleaned&gt;</h1>") && page.contains("<rect class=\"high\""), "{page}");
    for shown in [text, json.to_string(), page, format!("{score:?}")] {
        assert!(!shown.contains("x.example") && !shown.contains("y.example"), "{shown}");
    }
}

#[test]
fn the_time_of_verdicts_decides() {
    let list = "email,deliverable,reason\na@x.example,true,mailbox_exists\n";
    let counts = |options: ScoreOptions, changed_at: Option<u64>| {
        let mut scorer = Scorer::new(options).unwrap();
        scorer.add_verdicts(&mut source(list), "cleaned.csv", changed_at)?;
        scorer.add_events(Box::new(Cursor::new(EXPORT.as_bytes())))?;
        scorer.finish().map(|score| score.to_string())
    };
    let (first, late) =
        (lists::utc_seconds("2026-11-01T00:00:00Z"), lists::utc_seconds("2026-11-03T00:00:00Z"));
    let said = counts(OPTIONS, first).unwrap();
    assert!(
        said.contains(
            "- 1 verdict without a time of their own: 2026-11-01T00:00:00Z (the last change of cleaned.csv)"
        ),
        "{said}"
    );
    let said = counts(ScoreOptions { checked_at: first, ..OPTIONS }, None).unwrap();
    assert!(said.contains(": 2026-11-01T00:00:00Z (--checked-at)"), "{said}");
    for (options, changed_at, expected) in [
        (
            OPTIONS,
            None,
            "cleaned.csv has verdicts without a time: give the time of the check, such as --checked-at",
        ),
        (OPTIONS, late, "with verdicts of 2026-11-03T00:00:00Z (the last change of cleaned.csv). Found: "),
        (
            ScoreOptions { window_days: 1, ..OPTIONS },
            first.map(|at| at - DAY),
            "in the 1 day after its verdict",
        ),
    ] {
        let Err(ScoreError::Failed(said)) = counts(options, changed_at) else { panic!("{expected}") };
        assert!(said.contains(expected) && !said.contains('\n'), "{said}");
    }
}

#[test]
fn what_was_mailed_makes_shares_of_bounces() {
    let score =
        scored(VERDICTS, "email\na@x.example\nb@x.example\ng@y.example\ng@Y.example\n", &[BOUNCES]).unwrap();
    let all = score.groups[&Group::All];
    assert_eq!((all.bounced, all.others, score.rest.silent, score.rest.not_mailed), (1, 2, 2, 4));
    assert!(
        score.to_string().contains("- 2 addresses of --mailed without an event did not bounce: "),
        "{score}"
    );
}

#[test]
fn files_that_cannot_be_scored_are_refused() {
    for (verdicts, files, expected) in [
        (
            "email,city\na@x.example,Rome\n",
            &[EXPORT][..],
            "cleaned.csv is no output of `mailprobe clean` and no download of a list: it has no columns deliverable and reason; \
             name such a file with --score",
        ),
        ("email,deliverable\na@x.example,true\n", &[EXPORT], "it has no column reason;"),
        (
            "email,deliverable,reason\na@x.example,true,perhaps\n",
            &[EXPORT],
            "its columns deliverable and reason have no value that mailprobe writes",
        ),
        (
            VERDICTS,
            &[BOUNCES],
            "the files have 1 failure, and none is an export with deliveries, so they do not show how many addresses were mailed: add \
             such an export of your provider, or name the list that was mailed with --mailed FILE",
        ),
        (VERDICTS, &[DELIVERY_REPORT], "the files have 0 failures, and none is an export with deliveries"),
        (
            VERDICTS,
            &["email,event,timestamp\nz@y.example,delivered,2026-11-02\n"],
            "no address has an outcome in the 30 days after its verdict. Found: 1 address with mail and without a verdict; 7 \
             addresses with a verdict and without mail; ",
        ),
    ] {
        let error = scored(verdicts, "", files).unwrap_err();
        let ScoreError::Failed(said) = error else { panic!("{error:?}") };
        assert!(said.contains(expected) && !said.contains('@'), "{said}");
    }
    assert!(matches!(scored(VERDICTS, "", &["hello"]), Err(ScoreError::Events(_))));
}

/// Events that are too old to be evidence are outcomes, and several outputs are one.
#[test]
fn old_events_and_several_outputs_count() {
    let old = "email,event,timestamp\na@x.example,delivered,2024-11-02\nb@x.example,delivered,2025-05-02\n";
    let mut scorer = Scorer::new(OPTIONS).unwrap();
    for list in [
        "email,deliverable,reason,checked_at\na@x.example,true,mailbox_exists,2024-11-01T00:00:00Z\n",
        "mail;note;mailprobe_deliverable;mailprobe_reason;mailprobe_checked_at\n\
         b@x.example;x;FALSE;catch_all;2025-05-01T00:00:00Z\na@x.example;x;FALSE;catch_all;2025-05-01T00:00:00Z\n",
        "{\"email\":\"b@x.example\",\"deliverable\":true,\"reason\":\"role_account\",\"checked_at\":\"2025-06-01T00:00:00Z\"}\n",
    ] {
        scorer.add_verdicts(&mut source(list), "cleaned.csv", None).unwrap();
    }
    scorer.add_events(Box::new(Cursor::new(old.as_bytes()))).unwrap();
    let score = scorer.finish().unwrap();
    let of = |reason| score.groups.get(&Group::Reason(reason)).map(|counts| counts.others);
    assert_eq!(
        (of(Reason::MailboxExists), of(Reason::CatchAll), of(Reason::RoleAccount)),
        (Some(1), Some(1), None)
    );
}

/// The reasons of 10,000 verdicts with the share of each that bounces, and the number of its verdicts.
const PLANTED: [(Reason, f64, usize); 12] = [
    (Reason::MailboxExists, 0.002, 4000),
    (Reason::RoleAccount, 0.001, 800),
    (Reason::CatchAll, 0.2, 1500),
    (Reason::Unverifiable, 0.05, 1200),
    (Reason::FastCheckPassed, 0.01, 900),
    (Reason::InboxFull, 0.5, 300),
    (Reason::MailboxNotFound, 0.98, 700),
    (Reason::MailboxDisabled, 1.0, 150),
    (Reason::Disposable, 0.0, 300),
    (Reason::NoMx, 0.99, 80),
    (Reason::PossibleTypo, 0.8, 40),
    (Reason::Spamtrap, 0.03, 30),
];

/// In each of 200 draws, each address bounces by chance. The intervals contain the planted share in at least 182 of them.
#[test]
fn intervals_cover_planted_shares() {
    let providers = ["google", "microsoft", "other", "yahoo", "zoho"];
    let verdicts: Vec<(Reason, f64, u32)> = PLANTED
        .iter()
        .flat_map(|&(reason, share, count)| vec![(reason, share); count])
        .zip(0..)
        .map(|((reason, share), n)| (reason, share, n % 7 % 5))
        .collect();
    assert_eq!(verdicts.len(), 10_000);
    let mut truth: BTreeMap<Group, (f64, u64)> = BTreeMap::new();
    for &(reason, share, provider) in &verdicts {
        let name = providers[provider as usize];
        for group in [
            Group::All,
            Group::Deliverable(reason.deliverable()),
            Group::Reason(reason),
            Group::Provider(Some(name)),
            Group::Both(reason, name),
        ] {
            let sum = truth.entry(group).or_default();
            *sum = (sum.0 + share, sum.1 + 1);
        }
    }
    let mut covered: BTreeMap<Group, u32> = BTreeMap::new();
    for seed in 0..200 {
        let mut random = Rng::with_seed(seed);
        let mut score = Score { groups: BTreeMap::new(), rest: Rest::default(), now: NOW, window_days: 30 };
        for &(reason, share, provider) in &verdicts {
            let fate = if random.f64() < share { Fate::Bounced } else { Fate::Silent };
            score.count(Judged::Scored { reason: reasons::code(reason), provider, fate }, &providers);
        }
        for (group, counts) in &score.groups {
            let (sum, count) = truth[group];
            let row = shown::row(group, counts);
            // The sum of planted shares is rounded.
            let is_covered = (row.low - 1e-9..=row.high + 1e-9).contains(&(sum / count as f64));
            *covered.entry(*group).or_default() += u32::from(is_covered);
        }
    }
    let large = covered.iter().filter(|(group, _)| truth[group].1 >= FEW_OUTCOMES);
    let large: Vec<_> = large.map(|(group, count)| (*count, group)).collect();
    let (least, group) = large.iter().min().unwrap();
    println!("{} groups; the least coverage is {least} of 200, of {group:?}", large.len());
    assert!(large.len() > 50 && *least >= 182, "{least} of 200 for {group:?}");
}

/// The same counts come from files as from the judgment of single addresses.
#[test]
fn many_rows_are_joined() {
    let mut random = Rng::with_seed(7);
    let (mut verdicts, mut export) = (
        "email,deliverable,reason,provider,checked_at\n".to_owned(),
        "email,event,timestamp,reason\n".to_owned(),
    );
    let mut expected = Counts::default();
    for n in 0..3000 {
        verdicts += &format!("u{n}@x.example,true,mailbox_exists,google,2026-10-0{}T00:00:00Z\n", 1 + n % 9);
        let (event, reason) = match random.u8(..3) {
            0 => ("bounce", "550 5.1.1 user unknown"),
            1 => ("bounce", "550 5.7.1 spam"),
            _ => ("delivered", ""),
        };
        expected.bounced += u64::from(reason.contains("unknown"));
        expected.failed += u64::from(reason.contains("spam"));
        expected.others += u64::from(event == "delivered");
        export += &format!("u{n}@x.example,{event},2026-10-10T00:00:00Z,{reason}\n");
    }
    let score = scored(&verdicts, "", &[&export]).unwrap();
    assert_eq!(score.groups[&Group::Both(Reason::MailboxExists, "google")], expected);
}

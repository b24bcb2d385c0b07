use super::*;
use crate::work::testing::{mailbox, work};
use ControlFinding::{AcceptsAll, RefusesUnknown, Unknown};
use std::time::Duration;

const NUMBER: u64 = 7;

fn control_refusal(knowledge: &Knowledge, now: Instant) -> Option<ControlRefusal> {
    knowledge.of_domain(NUMBER)?.control_refusal(now)
}

fn has_refused_many(knowledge: &Knowledge, now: Instant) -> bool {
    knowledge.of_domain(NUMBER).is_some_and(|known| known.has_refused_many(now))
}

#[test]
fn what_is_believed_is_believed_for_a_while() {
    let now = Instant::now();
    for (finding, lasting, ttl) in [
        (RefusesUnknown, false, CONTROL_SINGLE_TTL),
        (RefusesUnknown, true, CONTROL_TTL),
        (AcceptsAll, false, CONTROL_SINGLE_TTL),
        (Unknown, false, CONTROL_UNKNOWN_TTL),
        (Unknown, true, CONTROL_UNKNOWN_TTL),
    ] {
        let mut knowledge = Knowledge::default();
        assert!(!knowledge.on_shown(NUMBER, finding, false, now));
        let just_before = now + ttl - Duration::from_millis(1);
        assert_eq!(knowledge.believed(NUMBER, lasting, just_before), Some(finding));
        assert_eq!(knowledge.believed(NUMBER, lasting, now + ttl), None, "{finding:?} {lasting}");
    }
}

#[test]
fn sessions_that_contradict_each_other_are_not_believed() {
    let now = Instant::now();
    for (first, second) in [(RefusesUnknown, AcceptsAll), (AcceptsAll, RefusesUnknown)] {
        let mut knowledge = Knowledge::default();
        knowledge.on_shown(NUMBER, first, false, now);
        assert!(knowledge.on_shown(NUMBER, second, false, now), "{first:?} and {second:?}");
        assert_eq!(knowledge.believed(NUMBER, true, now), None);
        assert!(!knowledge.on_shown(NUMBER, second, false, now));
        assert!(!knowledge.is_catch_all(NUMBER, now), "contradicted within the last hour");
    }
    let mut knowledge = Knowledge::default();
    knowledge.on_shown(NUMBER, RefusesUnknown, false, now);
    assert!(!knowledge.on_shown(NUMBER, AcceptsAll, false, now + CONTROL_TTL), "the first one is forgotten");
    knowledge.on_shown(NUMBER, Unknown, false, now + CONTROL_TTL);
    let then = now + CONTROL_TTL;
    assert_eq!(knowledge.believed(NUMBER, true, then), Some(AcceptsAll), "a failed probe overwrites nothing");
    knowledge.on_contradicted(NUMBER, then);
    assert_eq!(knowledge.believed(NUMBER, true, then), None);
}

#[test]
fn a_refused_control_recipient_proves_nothing_after_a_contradiction() {
    let now = Instant::now();
    let mut knowledge = Knowledge::default();
    assert_eq!(control_refusal(&knowledge, now), None);
    knowledge.on_shown(NUMBER, RefusesUnknown, false, now);
    assert_eq!(control_refusal(&knowledge, now), Some(ControlRefusal::Counts));
    knowledge.on_contradicted(NUMBER, now);
    assert_eq!(control_refusal(&knowledge, now), Some(ControlRefusal::Contradicted));
    knowledge.on_shown(NUMBER, AcceptsAll, false, now);
    assert_eq!(control_refusal(&knowledge, now), None);
    knowledge.on_shown(NUMBER, RefusesUnknown, false, now);
    assert_eq!(control_refusal(&knowledge, now), Some(ControlRefusal::Contradicted));
    assert_eq!(control_refusal(&knowledge, now + CONTROL_TTL), None);
}

#[test]
fn what_is_known_of_a_postmaster_says_nothing_of_a_control_recipient() {
    let now = Instant::now();
    let mut knowledge = Knowledge::default();
    knowledge.on_no_postmaster(NUMBER, now);
    assert_eq!(knowledge.believed(NUMBER, false, now), None);
    assert!(knowledge.has_no_postmaster(NUMBER, now));
}

#[test]
fn a_domain_that_refused_many_is_not_spared() {
    let now = Instant::now();
    for first in [true, false] {
        let mut knowledge = Knowledge::default();
        if first {
            knowledge.on_refusals(NUMBER, REFUSALS_IN_A_ROW_MIN, now);
        }
        knowledge.on_shown(NUMBER, AcceptsAll, false, now);
        knowledge.on_shown(NUMBER, AcceptsAll, false, now);
        knowledge.on_refusals(NUMBER, REFUSALS_IN_A_ROW_MIN, now);
        assert_eq!(knowledge.is_catch_all(NUMBER, now), !first, "these were closed mailboxes");
        let later = now + Duration::from_secs(1);
        knowledge.on_refusals(NUMBER, REFUSALS_IN_A_ROW_MIN, later);
        assert!(!knowledge.is_catch_all(NUMBER, later) && has_refused_many(&knowledge, later));
    }
}

#[test]
fn refusals_of_several_sessions_add_up_where_a_domain_seems_to_accept_everyone() {
    let (shown, half) = (Instant::now(), REFUSALS_IN_A_ROW_MIN / 2);
    let (mut knowledge, now) = (Knowledge::default(), shown + Duration::from_secs(1));
    (0..3).for_each(|_| knowledge.on_refusals(NUMBER, half, now));
    assert!(!has_refused_many(&knowledge, now), "nobody would be spared");
    knowledge.on_shown(NUMBER, AcceptsAll, false, shown);
    knowledge.on_refusals(NUMBER, half, now);
    assert!(!has_refused_many(&knowledge, now));
    let later = now + CONTROL_TTL;
    knowledge.on_refusals(NUMBER, half, later);
    assert!(!has_refused_many(&knowledge, later), "the others were an hour ago");
    knowledge.on_refusals(NUMBER, half, later);
    assert!(has_refused_many(&knowledge, later));
}

#[test]
fn rows_are_spared_once_two_sessions_agree() {
    let (client, now) = (mailbox(), Instant::now());
    let (primary, backup): (Rc<str>, Rc<str>) = ("mx1.a.example".into(), "mx2.a.example".into());
    let row = |priority| work(&client, "v@a.example", priority);
    let first = row(Priority::List);
    let mut knowledge = Knowledge::default();
    let at = DomainAtHost { domain: first.address.domain().clone(), host: Rc::clone(&primary) };
    let number = knowledge.key(&at);
    knowledge.on_shown(number, AcceptsAll, false, now);
    assert!(!knowledge.needs_no_question(&first, &primary, now), "one session is no proof");
    knowledge.on_shown(number, AcceptsAll, true, now);
    assert!(!knowledge.needs_no_question(&first, &primary, now), "nor is one that shows it twice");
    knowledge.on_shown(number, AcceptsAll, false, now);
    assert!(knowledge.needs_no_question(&first, &primary, now));
    assert!(knowledge.needs_no_question(&row(Priority::Batch), &primary, now));
    assert!(!knowledge.needs_no_question(&row(Priority::Single), &primary, now), "somebody waits");
    assert!(!knowledge.needs_no_question(&first, &backup, now), "another host");
    let other = work(&client, "v@b.example", Priority::List);
    assert!(!knowledge.needs_no_question(&other, &primary, now), "another domain");
    let mut heard = row(Priority::List);
    heard.tried = 1;
    assert!(!knowledge.needs_no_question(&heard, &primary, now), "it was asked about before");
    assert!(!knowledge.needs_no_question(&first, &primary, now + CONTROL_TTL), "known no longer");
    knowledge.on_shown(number, RefusesUnknown, false, now);
    assert!(!knowledge.needs_no_question(&first, &primary, now), "it tells mailboxes apart");
    [first, other, heard].into_iter().for_each(Work::give_up);
}

#[test]
fn a_control_recipient_without_an_answer_is_asked_again_a_few_times() {
    let now = Instant::now();
    let mut knowledge = Knowledge::default();
    for _ in 1..CONTROL_ATTEMPTS_MAX {
        assert!(knowledge.on_unanswered(NUMBER, now));
    }
    assert!(!knowledge.on_unanswered(NUMBER, now));
    assert_eq!(knowledge.believed(NUMBER, false, now), Some(Unknown));
}

#[test]
fn one_mailbox_of_a_host_is_known_for_an_hour() {
    let (now, host): (Instant, Rc<str>) = (Instant::now(), "mx.a.example".into());
    let mut knowledge = Knowledge::default();
    assert_eq!(knowledge.mailbox(&host, now), None);
    knowledge.on_mailbox(&host, "t@a.example", false, now);
    knowledge.on_mailbox(&host, "u@a.example", true, now);
    knowledge.on_mailbox(&host, "v@a.example", true, now);
    knowledge.on_mailbox(&host, "w@a.example", false, now);
    assert_eq!(knowledge.mailbox(&host, now).as_deref(), Some("u@a.example"), "the first that was proven");
    let later = now + KNOWN_MAILBOX_TTL / 2;
    knowledge.on_mailbox(&host, "v@a.example", true, later);
    assert_eq!(knowledge.mailbox(&host, now + KNOWN_MAILBOX_TTL).as_deref(), Some("v@a.example"));
    assert_eq!(knowledge.mailbox(&host, later + KNOWN_MAILBOX_TTL), None);
    assert!(
        knowledge.on_mailbox_refused(&host, "v@a.example", later),
        "the host has changed, not the mailbox"
    );
    assert!(knowledge.mailbox(&host, later).is_some());
    for n in 0..2 * KNOWN_MAILBOXES_MAX {
        knowledge.on_mailbox(&format!("mx{n}.example").into(), "u@a.example", true, later);
    }
    assert!(knowledge.mailboxes.len() <= KNOWN_MAILBOXES_MAX);
    let last = later + KNOWN_MAILBOX_TTL;
    knowledge.on_mailbox(&host, "u@a.example", false, last);
    assert!(!knowledge.on_mailbox_refused(&host, "u@a.example", last), "nothing was proven of it");
    assert_eq!(knowledge.mailbox(&host, last + KNOWN_MAILBOX_AGE), None);
}

#[test]
fn a_refusal_of_another_address_says_nothing_of_the_known_mailbox() {
    let (now, host): (Instant, Rc<str>) = (Instant::now(), "mx.a.example".into());
    for proven in [true, false] {
        let mut knowledge = Knowledge::default();
        knowledge.on_mailbox(&host, "old@a.example", false, now);
        let later = now + KNOWN_MAILBOX_AGE;
        let until = later + KNOWN_MAILBOX_TTL - Duration::from_millis(1);
        knowledge.on_mailbox(&host, "new@a.example", proven, later);
        // The replies about the old mailbox, or about a canary, come after another session has replaced the old mailbox.
        assert!(!knowledge.on_mailbox_refused(&host, "old@a.example", later), "proven: {proven}");
        knowledge.on_mailbox_first_failed(&host, "old@a.example", later);
        assert_eq!(knowledge.mailbox_first(&host, until).as_deref(), Some("new@a.example"));
        assert_eq!(knowledge.mailbox_first(&host, later).as_deref(), Some("new@a.example"));
        assert_eq!(knowledge.on_mailbox_refused(&host, "new@a.example", later), proven);
    }
}

#[test]
fn a_mailbox_that_is_not_proven_replaces_no_proven_one() {
    let (now, host): (Instant, Rc<str>) = (Instant::now(), "mx.a.example".into());
    let mut knowledge = Knowledge::default();
    knowledge.on_mailbox(&host, "u@a.example", true, now);
    let later = now + KNOWN_MAILBOX_AGE + Duration::from_secs(60);
    knowledge.on_mailbox(&host, "v@a.example", false, later);
    knowledge.on_mailbox_unproven(&host, "v@a.example");
    assert_eq!(knowledge.mailbox(&host, later).as_deref(), Some("u@a.example"));
    let over = now + KNOWN_MAILBOX_TTL;
    knowledge.on_mailbox(&host, "v@a.example", false, over);
    assert_eq!(knowledge.mailbox(&host, over).as_deref(), Some("v@a.example"), "the old one is over");
}

#[test]
fn a_mailbox_that_failed_in_front_of_others_is_not_asked_there_again_at_once() {
    let (now, host): (Instant, Rc<str>) = (Instant::now(), "mx.a.example".into());
    let mut knowledge = Knowledge::default();
    assert_eq!(knowledge.mailbox_first(&host, now), None);
    knowledge.on_mailbox(&host, "u@a.example", true, now);
    assert_eq!(knowledge.mailbox_first(&host, now).as_deref(), Some("u@a.example"));
    knowledge.on_mailbox_first_failed(&host, "u@a.example", now);
    assert_eq!(knowledge.mailbox_first(&host, now), None);
    assert!(knowledge.mailbox(&host, now).is_some(), "it is known all the same");
    assert!(knowledge.mailbox_first(&host, now + CONTROL_UNKNOWN_TTL).is_some());
}

#[test]
fn a_host_is_believed_for_so_many_single_checks() {
    let host: Rc<str> = "mx.a.example".into();
    let mut knowledge = Knowledge::default();
    assert!(knowledge.control_refusal_counts(&host));
    let accepts = |knowledge: &mut Knowledge, count: u32| {
        (0..count).for_each(|_| knowledge.on_single(&host, true));
    };
    accepts(&mut knowledge, CONTROL_ACCEPTS_MAX - 1);
    knowledge.on_single(&host, false);
    assert!(knowledge.control_refusal_counts(&host));
    accepts(&mut knowledge, 1);
    assert!(!knowledge.control_refusal_counts(&host), "a refusal that nobody proved does not begin anew");
    knowledge.on_control_refused(&host);
    assert!(knowledge.control_refusal_counts(&host));
    knowledge.on_changed(&host, Instant::now());
    assert!(!knowledge.control_refusal_counts(&host), "it accepts everyone now");
    for n in 0..2 * KNOWN_MAILBOXES_MAX {
        knowledge.on_single(&format!("mx{n}.example").into(), true);
    }
    assert!(knowledge.singles.len() <= KNOWN_MAILBOXES_MAX);
}

#[test]
fn a_refusal_that_another_session_took_back_is_known_for_an_hour() {
    let now = Instant::now();
    let mut knowledge = Knowledge::default();
    knowledge.on_taken_back(1, now);
    let has_taken_back =
        |key, at| knowledge.of_domain(key).is_some_and(|known: &Known| known.has_taken_back(at));
    assert!(has_taken_back(1, now) && !has_taken_back(2, now) && !has_taken_back(1, now + CONTROL_TTL));
    assert_eq!(knowledge.believed(1, true, now), None, "it shows nothing about the control recipient");
}

#[test]
fn a_change_of_a_host_is_known_for_an_hour() {
    let (host, other): (Rc<str>, Rc<str>) = ("mx.a.example".into(), "mx.b.example".into());
    let now = Instant::now();
    let mut knowledge = Knowledge::default();
    assert!(!knowledge.has_changed(&host, now));
    knowledge.on_changed(&host, now);
    assert!(!knowledge.control_refusal_counts(&host), "not even for its first single check");
    let has_changed = |host, at| knowledge.has_changed(host, at);
    assert!(has_changed(&host, now) && !has_changed(&other, now) && !has_changed(&host, now + CONTROL_TTL));
    (0..2 * KNOWN_MAILBOXES_MAX).for_each(|n| knowledge.on_changed(&format!("mx{n}.example").into(), now));
    assert!(knowledge.changed.len() <= KNOWN_MAILBOXES_MAX && knowledge.singles.len() <= KNOWN_MAILBOXES_MAX);
}

#[test]
fn single_checks_that_are_refused_in_a_row_are_counted() {
    let host: Rc<str> = "mx.a.example".into();
    let mut knowledge = Knowledge::default();
    let refuses = |knowledge: &mut Knowledge, count: u32| {
        (0..count).for_each(|_| knowledge.on_single(&host, false));
    };
    refuses(&mut knowledge, REFUSALS_SINGLE_MAX - 1);
    assert!(!knowledge.is_long_run(&host));
    refuses(&mut knowledge, 1);
    assert!(knowledge.is_long_run(&host));
    knowledge.on_mailbox_accepted(&host);
    assert!(!knowledge.is_long_run(&host), "a known mailbox was accepted");
    refuses(&mut knowledge, REFUSALS_SINGLE_MAX);
    knowledge.on_single(&host, true);
    assert!(!knowledge.is_long_run(&host), "somebody was accepted");
}

#[test]
fn a_host_without_a_postmaster_is_remembered() {
    let now = Instant::now();
    let mut knowledge = Knowledge::default();
    assert!(!knowledge.has_no_postmaster(NUMBER, now));
    knowledge.on_no_postmaster(NUMBER, now);
    assert!(knowledge.has_no_postmaster(NUMBER, now));
    assert!(!knowledge.on_shown(NUMBER, AcceptsAll, false, now), "that is no finding of its own");
    assert!(knowledge.has_no_postmaster(NUMBER, now));
    assert!(!knowledge.has_no_postmaster(NUMBER, now + CONTROL_TTL));
}

//! Servers that no longer answer, and sites without budget.

use super::*;
use std::time::Instant;

/// A desk with a list that waits half a second for answers.
fn hasty(list: &str) -> Desk {
    let mut desk = desk("list.txt", list);
    desk.args.max_wait = 0;
    desk.args.silence = Duration::from_millis(500);
    desk
}

fn left(summary: &Summary) -> Vec<(&str, u64)> {
    summary.left.by_rule().into_iter().map(|(rule, left)| (rule, left.rows)).collect()
}

#[test]
fn a_list_ends_when_nobody_answers_any_more() {
    for unordered in [false, true] {
        let mut desk = hasty("hang@x.com\ndeliverable@y.com\nhang@z.com\nnobody@y.com\nHANG@x.com\n");
        desk.args.unordered = unordered;
        let started = Instant::now();
        let summary = desk.run().unwrap();
        let took = started.elapsed();
        assert!((Duration::from_millis(500)..Duration::from_secs(20)).contains(&took), "{took:?}");
        assert_eq!(left(&summary), [("session-closing", 2)], "the duplicate is one address with its first");
        assert_eq!((summary.reasons.of(Reason::Unverifiable), summary.total()), (3, 5));
        assert_eq!(desk.checker.recalls, 1);
        let said = summary.to_string();
        for line in [
            "\n3 rows are unverifiable:\n  2 for now: a later try may tell more: `mailprobe clean ",
            "/out --retry -o NEW`\n    session-closing                    2  ",
            ": check again later; --max-wait 15m tries again within one run\n  1 with the address of an earlier row, and its result\n",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        let output = desk.output();
        assert!(output.contains("hang@x.com,false,unverifiable\n"), "{output}");
        assert!(output.contains("deliverable@y.com,true,mailbox_exists\n"), "{output}");
    }
}

#[test]
fn rows_without_room_at_a_silent_site_end_with_those_that_have_it() {
    let list: String = (0..300).map(|n| format!("hang@d{}.com\n\"{n}\"@d{}.com\n", n % 3, n % 3)).collect();
    let mut desk = hasty(&list);
    desk.checker.capacity = 1000;
    // The three addresses that have room never release it.
    desk.checker.crowd = Some(1);
    let summary = desk.run().unwrap();
    assert_eq!(summary.total(), 600);
    assert_eq!(left(&summary), [(Left::SILENT, 300), ("session-closing", 3)]);
    assert_eq!(summary.duplicates, 297);
    assert_eq!(desk.output().lines().filter(|line| line.ends_with(",false,unverifiable")).count(), 600);
}

/// A server replies every 300 ms. Each reply is the answer about one row; or it is `held`, and all rows get their answers after the
/// fifth reply.
struct Paced {
    inner: Fake,
    held: bool,
    since: Instant,
}

impl Checker for Paced {
    fn submit(&mut self, ticket: u64, address: Address) -> Result<(), Refusal> {
        self.since = Instant::now();
        self.inner.submit(ticket, address)
    }

    fn answers(&mut self, patience: Duration, into: &mut Vec<Answered>) {
        let replies = self.since.elapsed().as_millis() / 300;
        if replies < if self.held { 5 } else { 1 } || self.inner.asked.is_empty() {
            std::thread::sleep(patience.min(Duration::from_millis(5)));
        } else if self.held {
            self.inner.answers(patience, into);
        } else {
            self.since = Instant::now();
            let (ticket, address) = self.inner.asked.remove(0);
            into.push(self.inner.answer(ticket, &address));
        }
    }

    fn answer_count(&self) -> u64 {
        if self.held { (self.since.elapsed().as_millis() / 300) as u64 } else { 0 }
    }

    fn recall(&mut self) {
        panic!("a server replies every 300 ms");
    }
}

#[test]
fn slow_answers_and_answers_that_are_held_are_waited_for() {
    for (list, held, least, rules) in [
        (
            "deliverable@a.com\nnobody@b.com\nlater@c.com\nnobody@d.com\ndeliverable@e.com\n",
            false,
            1200,
            &[("greylisted", 1)][..],
        ),
        ("deliverable@a.com\nnobody@b.com\n", true, 1400, &[]),
    ] {
        let (desk, mut paced) = (hasty(list), Paced { inner: fake(), held, since: Instant::now() });
        let summary = Job::open(desk.args.clone()).unwrap().run(&mut paced).unwrap();
        assert!(summary.elapsed > Duration::from_millis(least), "{:?}", summary.elapsed);
        assert_eq!((summary.total(), &left(&summary)[..]), (list.lines().count() as u64, rules));
        assert_eq!(summary.reasons.of(Reason::Unverifiable), rules.len() as u64);
        assert!(held || desk.output().contains("later@c.com,false,unverifiable\n"));
    }
}

#[test]
fn max_wait_waits_for_silent_servers_too() {
    let mut desk = hasty("hang@x.com\n");
    desk.args.max_wait = 1;
    let summary = desk.run().unwrap();
    assert!((1.5..20.0).contains(&summary.elapsed.as_secs_f64()), "{:?}", summary.elapsed);
    assert_eq!((left(&summary), summary.retries), (vec![("session-closing", 1)], 0));
    assert!(summary.to_string().contains("--max-wait 15m tries"));
}

#[test]
fn a_spent_budget_is_waited_for_as_long_as_the_user_says() {
    let list = "budget@x.com\nnobody@x.com\nBudget@x.com\n";
    let mut desk = hasty(list);
    desk.checker.budget_after = Duration::from_secs(2);
    let summary = desk.run().unwrap();
    assert_eq!(left(&summary), [(Left::BUDGET, 1)]);
    assert_eq!(desk.checker.submitted["budget@x.com"], 1);
    let said = summary.to_string();
    assert!(said.contains("\n    refusal_budget                     1  not asked: "), "{said}");
    assert!(
        said.contains(": check again after an hour; --max-wait 1h tries again within one run; many rows "),
        "{said}"
    );
    assert_eq!(
        desk.output(),
        "budget@x.com,false,unverifiable\nnobody@x.com,false,mailbox_not_found\n\
         Budget@x.com,false,unverifiable\n"
    );

    let mut desk = hasty(list);
    desk.checker.budget_after = Duration::from_secs(2);
    desk.args.max_wait = 3;
    let summary = desk.run().unwrap();
    assert_eq!((left(&summary), summary.retries), (vec![], 0));
    assert_eq!(desk.checker.submitted["budget@x.com"], 2);
    assert_eq!(
        desk.output(),
        "budget@x.com,true,mailbox_exists\nnobody@x.com,false,mailbox_not_found\n\
         Budget@x.com,true,mailbox_exists\n",
        "a duplicate has the verdict that its address got in the end"
    );
}

#[test]
fn resuming_asks_about_no_row_that_was_given_up() {
    let mut desk = hasty("hang@x.com\nstop@x.com\n");
    let (left, resumed) = ("hang@x.com,false,unverifiable\n", "nobody@x.com\n");
    std::fs::write(desk.path("out.partial"), left).unwrap();
    std::fs::write(&desk.args.input, format!("hang@x.com\n{resumed}")).unwrap();
    desk.args.resume = true;
    desk.run().unwrap();
    assert_eq!(desk.output(), format!("{left}nobody@x.com,false,mailbox_not_found\n"));
    assert!(!desk.checker.submitted.contains_key("hang@x.com"));
}

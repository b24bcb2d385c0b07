//! The invariants (rules) that the engine itself checks.
//!
//! The code calls [`holds`] where a rule must be true. If the rule is broken, the simulation (feature `sim`) records and reports
//! this, any other debug build panics, and a release build does not check. For each rule, `Fault::Break` plants a defect that
//! breaks the rule, so that tests can show that the check works. The simulated world (`tools/xtask/src/sim`) has the checks that
//! are possible only from outside the engine, such as that each request gets one answer. `docs/glossary.md` defines the words of
//! the rules, such as site, group and route.

/// Declares the rules: for each its name in the code, its name on the command line, and a sentence.
macro_rules! invariants {
    ($($name:ident, $word:literal, $rule:literal;)*) => {
        /// A rule that the engine checks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Invariant { $(#[doc = $rule] $name,)* }

        /// All rules, each with its name on the command line.
        #[cfg(feature = "sim")]
        pub const INVARIANTS: &[(Invariant, &str)] = &[$((Invariant::$name, $word),)*];

        impl Invariant {
            /// The sentence that states the rule.
            pub fn rule(self) -> &'static str {
                match self { $(Invariant::$name => $rule,)* }
            }
        }
    };
}

invariants! {
    SiteOpen, "site-open", "A site has as many sessions open as its groups together.";
    ShardOpen, "shard-open", "A shard has no more sessions open than its share of the total.";
    NetworkRoom, "network-room", "No session task begins while its network has as many sessions as it may have.";
    BusyOpen, "busy-open", "No more sessions of a group wait for answers than are open.";
    QueueDeadlines, "queue-deadlines", "The queue knows the deadline of every work in it.";
    QueueTurns, "queue-turns", "No class of works is passed over more often in a row than the limit.";
    SessionTurns, "session-turns", "Rows that wait for a session are not passed over more often in a row than the limit.";
    TakenMost, "taken-most", "A transaction takes no more works than its session has room for.";
    TakenAlone, "taken-alone", "A work at which a session hung is asked about alone.";
    DueFirst, "due-first", "No work of a transaction expires before the earliest deadline on record.";
    TallyAnswers, "tally-answers", "A session gets no more answers than the number of recipients it asked about.";
    TallyErrors, "tally-errors", "A session counts no more refusals than answers.";
    HeldReleased, "held-released", "A session that has ended holds no answers.";
    WalkBytes, "walk-bytes", "The recorded bytes of all kept walks are the sum over these walks.";
    GroupIdle, "group-idle", "No group with work or with a session is forgotten.";
    GroupActive, "group-active", "Every group with work or with a session is among those that are searched for expired works.";
    QueuedOnce, "queued-once", "A group is queued at most once for a session of its site.";
    TimerFirst, "timer-first", "The timer of a site wakes it no later than a group asked for.";
    RouteUp, "route-up", "No session is opened over a route that is down.";
    RouteRested, "route-rested", "No session is opened over a route that rests.";
    Admitted, "admitted", "Every patient work in a queue has a site admission.";
    StarvedWoken, "starved-woken", "No group waits for a session while the shard has room for one.";
    TicketsCounted, "tickets-counted", "No client has more tickets than all clients together have under way.";
    WalkFresh, "walk-fresh", "The result of a walk is not used after it has expired.";
    LookupJoined, "lookup-joined", "A question joins only a lookup that has not ended.";
    LookupWoken, "lookup-woken", "No task waits for a lookup that has ended.";
    LookupQueued, "lookup-queued", "A lookup that counts as waiting for room is in the queue of its resolver.";
    AnewInTime, "anew-in-time", "A work begins anew only before its deadline.";
    AdmittedHere, "admitted-here", "The site admission of a work in a queue, if it has one, is from the site of this queue.";
    Returns, "returns", "No work is put back for another session more often than the limit allows.";
    TakenUntried, "taken-untried", "No work is asked about over a route that it has tried.";
    SiteKept, "site-kept", "Every group refers to the same site object that its shard has under the site's name.";
    SiteCeiling, "site-ceiling", "A site has no more sessions open than its ceiling.";
    SitePaused, "site-paused", "No session begins while its site has a pause.";
    ShardSum, "shard-sum", "A shard has as many sessions open as its sites together.";
    AskedBack, "asked-back", "While a site has no session, no recipient of the site counts as under way.";
    ProofFirst, "proof-first", "A session takes no further works while its checkpoint is due.";
    DomainShut, "domain-shut", "A host is not asked about a domain that it refuses as a whole.";
    CarriedHere, "carried-here", "A carried refusal counts only at the host that gave it.";
    ControlOther, "control-other", "A control recipient is not the address that it is to prove.";
    KnownFresh, "known-fresh", "A mailbox that has expired as a known mailbox is not asked about as one.";
    InStep, "in-step", "No answer counts while the replies of its session may be out of step.";
    KnownBy, "known-by", "The keys of a domain are not used for another domain.";
}

#[cfg(feature = "sim")]
thread_local! {
    static BROKEN: std::cell::RefCell<std::collections::BTreeSet<Invariant>> = const { std::cell::RefCell::new(std::collections::BTreeSet::new()) };
}

/// Checks a rule: see the module. `is_so` is the condition.
#[inline]
pub(crate) fn holds(invariant: Invariant, is_so: impl FnOnce() -> bool) {
    #[cfg(feature = "sim")]
    if !is_so() {
        BROKEN.with_borrow_mut(|broken| broken.insert(invariant));
    }
    #[cfg(not(feature = "sim"))]
    debug_assert!(is_so(), "{}", invariant.rule());
}

/// The rules that were broken on this thread since the last call.
#[cfg(feature = "sim")]
pub(crate) fn take_broken() -> Vec<Invariant> {
    BROKEN.take().into_iter().collect()
}

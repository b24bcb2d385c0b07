//! Defects that a test plants in the engine, to show that the checks of the simulation find them.
//!
//! The code calls [`planted`] or [`sometimes`] where it has a defect. Without the feature `sim`, both are constant functions that
//! return false, so the compiler removes all defects. A new defect also needs a name (`FAULTS` in `sim.rs`), and the failed check
//! by which the simulation finds the defect (`broken_by` in `tools/xtask/src/sim/mod.rs`). [`Fault::Break`] gets both from
//! `invariants.rs`. `docs/glossary.md` defines the words, such as site, checkpoint and control recipient.

use crate::invariants::Invariant;

/// A defect that a test can plant in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One answer in 16 is not delivered.
    LoseTicket,
    /// One answer in 16 is delivered twice.
    AnswerTwice,
    /// The sweep of a shard does nothing, so it answers no work at its deadline.
    AnswerLate,
    /// A refusal that is not about the recipient counts as a proof that the mailbox does not exist.
    SessionAsRecipient,
    /// An accepted recipient is confirmed at once, without a control recipient (one that does not exist).
    ConfirmWithoutControl,
    /// The limit of open sessions of a site is not applied.
    IgnoreSessions,
    /// Neither the limit of new sessions in a minute nor a pause of the site delays a session.
    IgnoreStarts,
    /// Some sites get no session.
    StarveSite,
    /// After the end of one session task in 16, another task stays alive for ever.
    LeakTask,
    /// Of the sessions that end with QUIT, one in 16 never closes its connection.
    LeakSession,
    /// A group without work is not forgotten.
    LeakGroup,
    /// An accept that a session holds is confirmed at the checkpoint, even if no recipient of its domain was refused after it.
    BelieveAccept,
    /// A refusal that a session holds counts as proven at the checkpoint, whatever the later replies showed, unless its words are
    /// unclear.
    BelieveRefusals,
    /// The budget of refused recipients never stops a question. Refusals and accepts are still counted.
    IgnoreBudget,
    /// The budget counts no recipients, whether they were refused, were accepted or wait for a reply.
    ForgetReserved,
    /// What a control recipient once showed counts for ever: time, contradictions and many accepts do not end this. The defect
    /// affects accepted single checks, accepted rows at a trusted operator or after an unclear reply to the control recipient, and
    /// greylisted domains.
    BelieveControl,
    /// One session with an accepted control recipient is enough to answer rows of the domain as `catch_all` without a question. Two
    /// sessions should be needed.
    SpareEarly,
    /// If a server ends a session with a 421 that says that we are too fast or not wanted, this counts like any other end of a
    /// session. So the site gets no pause for this reason, the rate of new sessions is not halved, and the source does not rest.
    IgnoreBusy,
    /// The code takes the first five bytes of a reply text for an enhanced status code. A shorter text makes the task panic.
    Panic,
    /// A session that waits for work wakes itself without end.
    Spin,
    /// Equal refusals are not counted, so mailprobe keeps asking a host that refuses everyone.
    AskOn,
    /// The control recipient of a domain changes every minute instead of every day.
    ManyControls,
    /// No route (address of a host) counts as down or as resting, whatever happened there.
    NeverRest,
    /// One write in 16 is sent twice, as if the first attempt had sent nothing.
    WriteTwice,
    /// The limits of the pace for a whole session are not applied, because what the session has asked about before does not count.
    IgnoreSessionLimits,
    /// If a host cannot be reached or does not answer, the address always gets an outage, as if our own network were at fault.
    BlameNetwork,
    /// Accepted recipients count as refused in the budget.
    CountAccepts,
    /// Answers of a session count although its replies may be out of step: each of them may be about another recipient.
    TrustStep,
    /// The defect that breaks this rule, which the engine itself checks.
    Break(Invariant),
}

#[cfg(feature = "sim")]
thread_local! {
    /// The defect of this thread, and the number of calls of [`sometimes`] for it.
    static PLANTED: std::cell::Cell<(Option<Fault>, u32)> = const { std::cell::Cell::new((None, 0)) };
}

/// Plants a defect in the engine of this thread, in place of any earlier one. `None` only removes the earlier one.
#[cfg(feature = "sim")]
pub(crate) fn plant(fault: Option<Fault>) {
    PLANTED.set((fault, 0));
}

/// Whether this defect is planted.
#[cfg(feature = "sim")]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get().0 == Some(fault)
}

/// Whether this defect is planted and has its effect in this call. It has its effect in every 16th call.
#[cfg(feature = "sim")]
pub(crate) fn sometimes(fault: Fault) -> bool {
    let (planted, count) = PLANTED.get();
    if planted != Some(fault) {
        return false;
    }
    PLANTED.set((planted, count + 1));
    count % 16 == 15
}

/// Without the feature `sim`, no defect is planted.
#[cfg(not(feature = "sim"))]
pub(crate) const fn planted(_fault: Fault) -> bool {
    false
}

/// Without the feature `sim`, no defect is planted.
#[cfg(not(feature = "sim"))]
pub(crate) const fn sometimes(_fault: Fault) -> bool {
    false
}

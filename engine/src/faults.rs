//! Defects that a test plants in the engine, to show that the checks of a simulation notice them.
//!
//! Product code asks [`planted`] or [`sometimes`] at the place of a defect. Without the feature `sim` both are constant, and the
//! compiler removes the defect. A new defect also needs a name (`FAULTS` in `sim.rs`) and the breach by which the simulation finds
//! it (`broken_by` in `tools/xtask/src/sim/mod.rs`). A defect that breaks an asserted rule gets both from its row in
//! `invariants.rs`.

use crate::invariants::Invariant;

/// A defect that is put into the engine on purpose, to see that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One answer in 16 is not delivered.
    LoseTicket,
    /// One answer in 16 is delivered twice.
    AnswerTwice,
    /// The sweep does nothing, so a work whose deadline has passed is not answered in time.
    AnswerLate,
    /// A refusal that is not about the recipient denies the mailbox.
    SessionAsRecipient,
    /// An accepted recipient is confirmed at once, and no control recipient is asked.
    ConfirmWithoutControl,
    /// The limit of open sessions of a site is not applied.
    IgnoreSessions,
    /// The limit of session starts of a site is not applied.
    IgnoreStarts,
    /// Some sites get no session.
    StarveSite,
    /// A task outlives its session.
    LeakTask,
    /// The connection of one session in 16 that ends with QUIT is never closed.
    LeakSession,
    /// A group without work is not forgotten.
    LeakGroup,
    /// A held accept is confirmed when it is released, whether or not a recipient of its domain was refused after it.
    BelieveAccept,
    /// A held refusal is released as proven, even if no mailbox was accepted after it. The questions that would prove it are still
    /// asked, but their answers do not matter.
    BelieveRefusals,
    /// The budget of refused recipients never says no, neither for works nor for control recipients. Refusals and accepts are
    /// counted as before.
    IgnoreBudget,
    /// Recipients take nothing from the budget: neither those that are under way nor those that were refused are counted.
    ForgetReserved,
    /// Single checks believe for ever what a control recipient once showed: neither age, nor a contradiction, nor the number of
    /// accepts since then ends it.
    BelieveControl,
    /// After one accepted control recipient, the rows of its domain are answered `catch_all` without being asked about, although no
    /// second session has confirmed it.
    SpareEarly,
    /// A 421 after refusals that says that we are too fast or not wanted is treated like any other end of a session: the site gets
    /// no pause, its rate is not lowered and the source does not rest, so the next session begins at once.
    IgnoreBusy,
    /// A reply is read as if it had an enhanced status code in its first five bytes: a short one ends the task in a panic.
    Panic,
    /// A session that waits for work wakes itself at once, again and again.
    Spin,
    /// Identical refusals are not counted, so a host that refuses everyone for the same reason is asked about more and more
    /// recipients.
    AskOn,
    /// The control recipient of a domain changes every minute, not every day.
    ManyControls,
    /// No route counts as down or as resting, whatever its host did.
    NeverRest,
    /// One write in 16 is sent twice, as if the first attempt had sent nothing.
    WriteTwice,
    /// The recipients that a session has asked about before do not limit its next transaction.
    IgnoreSessionLimits,
    /// If a host cannot be reached or does not answer, our own network is blamed in any case.
    BlameNetwork,
    /// Accepted recipients count as refused in the budget.
    CountAccepts,
    /// The defect that breaks a rule which the engine asserts.
    Break(Invariant),
}

#[cfg(feature = "sim")]
thread_local! {
    /// The defect of this thread, and how often [`sometimes`] was asked about it.
    static PLANTED: std::cell::Cell<(Option<Fault>, u32)> = const { std::cell::Cell::new((None, 0)) };
}

/// Plants a defect in the engine of this thread in place of the last one, or removes it.
#[cfg(feature = "sim")]
pub(crate) fn plant(fault: Option<Fault>) {
    PLANTED.set((fault, 0));
}

/// Whether this defect is planted.
#[cfg(feature = "sim")]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get().0 == Some(fault)
}

/// Whether this defect is planted and shows this time: one time in 16.
#[cfg(feature = "sim")]
pub(crate) fn sometimes(fault: Fault) -> bool {
    let (planted, count) = PLANTED.get();
    if planted != Some(fault) {
        return false;
    }
    PLANTED.set((planted, count + 1));
    count % 16 == 15
}

/// In production builds, no defect is planted.
#[cfg(not(feature = "sim"))]
pub(crate) const fn planted(_fault: Fault) -> bool {
    false
}

/// In production builds, no defect is planted.
#[cfg(not(feature = "sim"))]
pub(crate) const fn sometimes(_fault: Fault) -> bool {
    false
}

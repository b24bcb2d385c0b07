//! The seam for defects that a test plants in the engine, to show that the checks of a simulation notice them.
//!
//! Product code asks [`planted`] or [`sometimes`] at the place of a defect. Without the feature `sim` both are constant, and the
//! compiler removes the defect. A further defect also needs a name (`FAULTS` in `sim.rs`) and the breach by which the simulation finds
//! it (`broken_by` in `tools/xtask/src/sim/mod.rs`). A defect that breaks an asserted rule gets both from its row in `invariants.rs`.

use crate::invariants::Invariant;

/// A defect that is put into the engine on purpose, to see that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One answer in 16 is not delivered.
    LoseTicket,
    /// One answer in 16 is delivered twice.
    AnswerTwice,
    /// A work whose time is over is not answered.
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
    /// The state of a session is not freed.
    LeakSession,
    /// A group without work is not forgotten.
    LeakGroup,
    /// An accept of patient work is confirmed when its checkpoint closes or its session ends, although no recipient of the
    /// same domain and host was refused after it in the same session. It suffices that one was refused before it, at any
    /// time. To plant: the test "a refusal follows this accept" is always true.
    BelieveAccept,
    /// A run of refusals denies its mailboxes although no known mailbox was accepted after it. To plant: the positive control (a
    /// mailbox that was accepted before, a canary, postmaster) is neither asked nor waited for, and the run counts as honest.
    BelieveRefusals,
    /// The budget of refused recipients never says no. To plant: the room that is left is always unlimited; what is
    /// refused and accepted is counted as before. This holds for real recipients and for controls.
    IgnoreBudget,
    /// Recipients that were sent and not answered yet take nothing from the budget. To plant: the room that is left is
    /// computed from the refusals that were heard alone, and the recipients under way count as none.
    ForgetReserved,
    /// A refused control recipient is believed for ever by single checks. To plant: neither the 10 minutes nor the 20
    /// accepts of a host end it, and no evidence against it does.
    BelieveControl,
    /// Rows of a domain are answered `catch_all` without being asked about after one accepted control. To plant: the
    /// second control in another session is not waited for.
    SpareEarly,
    /// A 421 to a recipient that follows refusals in its session is taken for the end of a session that has had its
    /// share. To plant: its words pause no site, lower no rate and rest no source; the next session begins at once.
    IgnoreBusy,
    /// A reply is read as if it had an enhanced status code in its first five bytes: a short one ends the task in a panic.
    Panic,
    /// A session that waits for work wakes itself at once, again and again.
    Spin,
    /// Equal refusals are not counted: a host that refuses every recipient in the same words is asked on.
    AskOn,
    /// The control recipient of a domain is another one each minute.
    ManyControls,
    /// No route is down or rests, whatever its host did.
    NeverRest,
    /// One write in 16 is repeated, as if nothing of it had been sent.
    WriteTwice,
    /// What a session has asked about before does not limit its next transaction.
    IgnoreSessionLimits,
    /// If nothing can be found out about an address, our own network is to blame.
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

/// No defect is planted in a product.
#[cfg(not(feature = "sim"))]
pub(crate) const fn planted(_fault: Fault) -> bool {
    false
}

/// No defect is planted in a product.
#[cfg(not(feature = "sim"))]
pub(crate) const fn sometimes(_fault: Fault) -> bool {
    false
}

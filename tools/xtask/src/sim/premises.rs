//! How often the premise of a rule held. A rule whose premise never holds finds no defect.

use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the premises: the name, and the situation as a report names it.
macro_rules! premises {
    ($($name:ident, $text:literal;)*) => {
        /// A situation in which an engine with a defect would break a rule of the world.
        #[derive(Debug, Clone, Copy)]
        pub enum Premise { $(#[doc = $text] $name,)* }

        const TEXTS: &[&str] = &[$($text,)*];
    };
}

premises! {
    DeadDomain, "A domain takes no mail.";
    Unproven, "Patient work about an accepted mailbox has no evidence.";
    ControlExpired, "The refused control recipient of a single check is too old.";
    Misled, "A host accepted an unknown mailbox of patient work.";
    DeniedKnown, "A host that distinguishes mailboxes denied one that exists.";
    SinglesMisled, "A host misled many single checks.";
    Spared, "A row at a catch-all was not asked about.";
    OverBudget, "The engine answered that a budget is used up.";
    BudgetFull, "A site refused as many recipients as its budget has.";
    SiteFull, "A site had as many sessions as it may have.";
    StartsSpent, "A site had as many session starts as it may have.";
    SessionRecipients, "A session had as many recipients as it may have.";
    SessionRefusals, "A session had as many refusals as it may have.";
    TooFast, "A site that said that we are too fast was asked again.";
    RefusedAlike, "A host refused many recipients alike.";
    Controls, "A domain had more than one control recipient.";
    Fair, "An address of a healthy site got its answer.";
}

static HELD: [AtomicU64; TEXTS.len()] = [const { AtomicU64::new(0) }; TEXTS.len()];

impl Premise {
    /// Counts the premise if it held.
    pub fn count(self, held: bool) {
        if held {
            HELD[self as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// So many worlds have every premise, even the rarest.
const WORLDS_ENOUGH: u64 = 3_000;

/// How often each premise held in the worlds of this process.
///
/// # Errors
///
/// One of them never held, although there were enough worlds.
pub fn report(worlds: u64) -> Result<String, String> {
    let counts: Vec<u64> = HELD.iter().map(|held| held.load(Ordering::Relaxed)).collect();
    let lines = TEXTS.iter().zip(&counts).map(|(text, count)| format!("\n  {count:>9} times: {text}"));
    let lines = lines.collect();
    if worlds >= WORLDS_ENOUGH && counts.contains(&0) { Err(lines) } else { Ok(lines) }
}

//! Decides the effects of what a server says or does: on the recipient, on the session, on the host and on the pace of the site.
//!
//! The functions here only decide; the engine applies the effects. So a test of a decision is a row of inputs and expected effects.

pub mod ending;
pub mod recipient;
pub mod release;

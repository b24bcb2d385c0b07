//! Decides the effects of what a server says or does: on the recipient, on the session, on the host and on the pace of the site.
//!
//! The functions here only decide, and the engine applies the effects. So each decision is a table of inputs and effects, and its
//! tests are rows of that table.

pub mod ending;
pub mod recipient;
pub mod release;

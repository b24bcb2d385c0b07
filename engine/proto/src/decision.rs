//! The effects of what a server says or does: on a recipient, on the session, and on what is known of the host.
//!
//! The functions decide, and the engine applies the effects to the state of the site. So each decision is a table of inputs and
//! effects, and its tests are rows of that table.

pub mod ending;
pub mod recipient;
pub mod release;

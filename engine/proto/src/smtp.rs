//! SMTP as a client speaks it: replies in, commands out, and the dialog between them (RFC 5321).

pub mod reply;
pub mod status;

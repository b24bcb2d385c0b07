//! SMTP as a client speaks it: replies in, commands out, and the dialog between them (RFC 5321).

pub mod command;
pub mod dialog;
pub mod ehlo;
pub mod interval;
pub mod reply;
pub mod status;

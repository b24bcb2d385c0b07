//! The client side of SMTP (RFC 5321): replies are parsed, commands are encoded, and the dialog decides what to send.

pub mod command;
pub mod dialog;
pub mod ehlo;
pub mod habits;
pub mod interval;
pub mod reply;
pub mod status;

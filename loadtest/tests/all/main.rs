//! All tests of the command, as one program: each program links everything again.

mod command;
mod https;
mod planted;
mod signals;

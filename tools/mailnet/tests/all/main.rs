//! All tests of mailnet from the view of its clients. They are one program, because each program links everything again.

mod binary;
mod common;
mod conduct;
mod dialogs;
mod dns;
mod groups;
mod hostile;
mod hosts;
mod load;
mod providers;
mod scenario;
mod smtp;
mod tls;
mod truth;

//! All tests of the program and its commands. They are one program, because each program links everything again.

mod admin;
mod clean;
mod cluster;
mod contract;
mod http;
mod oauth;
mod web;

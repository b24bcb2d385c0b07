//! The dashboard from the view of a browser without script: pages, forms, cookies.

mod account;
mod attacks;
pub mod browser;
mod credentials;
mod deletion;
mod downloads;
mod keys;
mod lists;
mod races;
mod sessions;
mod shares;
mod sign_in;
mod sign_up;
mod webhooks;

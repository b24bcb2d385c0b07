//! A mail internet on loopback.

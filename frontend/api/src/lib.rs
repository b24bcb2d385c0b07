//! The public JSON contract.

#![deny(missing_docs)]

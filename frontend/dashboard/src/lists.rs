//! The pages of lists: the upload of a file, its state, and its download. The crate list-work has the work itself.

pub mod download;
pub mod pages;
pub mod upload;

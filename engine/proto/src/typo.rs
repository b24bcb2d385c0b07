//! Domains that look like a typing mistake of a popular provider.

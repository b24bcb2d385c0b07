//! Enhanced status codes (RFC 3463, RFC 5248): found in a reply's text and held against its reply code.

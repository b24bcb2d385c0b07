//! The host and port of a URL, read strictly: the host that is checked and the host that is connected to are the same.

/// Splits an authority without user information into host and port. `None` if the port is no number from 1 to 65535 without
/// leading zeros.
pub fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    // The colons of an IPv6 address are in brackets.
    let after = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after..].find(':') {
        None => Some((authority, None)),
        Some(at) => {
            let (host, port) = authority.split_at(after + at);
            let digits = &port[1..];
            let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
            Some((host, Some(digits.parse().ok().filter(|_| plain)?)))
        }
    }
}

/// Whether a host is a DNS name, in lower case and A-labels. Addresses are refused, because authorities issue no certificates
/// for them. System resolvers read a name as an IPv4 address if its last label is a number, also a hexadecimal one
/// (`0x7f000001`, `127.0x1`).
pub fn is_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let numeric = match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    host.len() <= 253 && !numeric && host.split('.').all(label)
}

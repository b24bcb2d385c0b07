//! The providers that may have a large share of a list.

use std::sync::LazyLock;

/// Domains of free providers with so many mailboxes that the rows of one of them would make its part much longer than the
/// others. Sorted. All were in `engine/proto/data/free.txt` when the list was made; that file changes, and this list does not:
/// a domain more or less would move rows to another part, and break parts of different releases.
pub(super) static SPREAD: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("../../data/spread.txt").lines().collect());

#[cfg(test)]
mod tests {
    use super::SPREAD;
    use siphasher::sip::SipHasher24;

    #[test]
    fn the_list_is_sorted_and_never_changes() {
        assert!(SPREAD.is_sorted_by(|a, b| a < b));
        assert!(SPREAD.iter().all(|domain| {
            engine_proto::address::Domain::parse(domain).is_ok_and(|it| it.as_str() == *domain)
        }));
        assert_eq!(
            (SPREAD.len(), SipHasher24::new().hash(SPREAD.join("\n").as_bytes())),
            (143, 0x69d0_e7f4_674a_7dfb)
        );
    }
}

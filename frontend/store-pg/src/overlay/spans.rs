//! A set of keys as spans that neither overlap nor touch.

use super::lack::{End, Span};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The spans, by their smallest keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans(BTreeMap<Vec<u8>, End>);

impl Spans {
    /// Adds the keys of a span.
    pub fn insert(&mut self, span: Span) {
        if span.is_empty() {
            return;
        }
        let Span { mut from, mut end } = span;
        if let Some((before, before_end)) = self.last_from(Bound::Included(&from))
            && touches(before_end, &from)
        {
            end = end.max(before_end.clone());
            from.clone_from(before);
        }
        while let Some((next, _)) =
            self.0.range::<[u8], _>((Bound::Included(from.as_slice()), Bound::Unbounded)).next()
            && touches(&end, next)
        {
            let next = next.clone();
            end = self.0.remove(&next).map_or(end.clone(), |next_end| end.max(next_end));
        }
        self.0.insert(from, end);
    }

    /// Whether a key is in the set.
    pub fn has(&self, key: &[u8]) -> bool {
        self.end_at(key).is_some()
    }

    /// The end of the span that has this key.
    pub fn end_at(&self, key: &[u8]) -> Option<&End> {
        self.last_from(Bound::Included(key)).map(|(_, end)| end).filter(|end| end.is_after(key))
    }

    /// The smallest key from which on all keys before `end` are in the set.
    pub fn start_before(&self, end: &End) -> Option<&[u8]> {
        let (from, own) = self.last_from(end.bound())?;
        (own >= end).then_some(from.as_slice())
    }

    fn last_from(&self, to: Bound<&[u8]>) -> Option<(&Vec<u8>, &End)> {
        self.0.range::<[u8], _>((Bound::Unbounded, to)).next_back()
    }
}

/// Whether a span with this end and one that begins at `next` are one span.
fn touches(end: &End, next: &[u8]) -> bool {
    match end {
        End::Before(end) => next <= end.as_slice(),
        End::Never => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::lack::successor;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..3)
    }

    proptest! {
        /// A set of few possible keys is the model.
        #[test]
        fn spans_are_a_set(added in prop::collection::vec((key(), prop::option::of(key())), 0..8), asked in key()) {
            let mut spans = Spans::default();
            let mut is_in = false;
            for (from, end) in added {
                let end = end.map_or(End::Never, End::Before);
                is_in |= from <= asked && end.is_after(&asked);
                spans.insert(Span { from, end });
            }
            prop_assert_eq!(spans.has(&asked), is_in);
            prop_assert_eq!(spans.start_before(&End::Before(successor(&asked))).is_some(), is_in);
            let ends: Vec<_> = spans.0.iter().collect();
            for pair in ends.windows(2) {
                prop_assert!(!touches(pair[0].1, pair[1].0), "{pair:?}");
            }
            if let Some(end) = spans.end_at(&asked) {
                prop_assert!(end.is_after(&asked));
                prop_assert!(spans.start_before(end).unwrap() <= asked.as_slice());
            }
        }
    }
}

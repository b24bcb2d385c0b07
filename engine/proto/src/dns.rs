//! DNS as a stub resolver's client speaks it: messages, the lookup machine, lifetimes, and the way from an MX
//! set to the hosts of a site.
//!
//! A [`Question`] is asked by a [`lookup::Lookup`], which ends with an [`Outcome`]; [`cache::Cache`] keeps it for
//! as long as [`ttl`] says. From the outcome of a domain's MX question, [`mx`] makes the plan that probing follows.
//!
//! [`message`] alone names the library that knows the wire format.

pub mod cache;
pub mod denials;
pub mod lookup;
pub mod message;
pub mod mx;
pub mod name;
pub mod public;
#[cfg(test)]
mod tests;
pub mod ttl;
pub mod upstreams;
pub mod window;

pub use message::{Exchange, Mx, Question, RecordKind, Records};
pub use name::Name;
use std::time::Duration;

/// The end of a question: records, a denial, or a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The name has records of this kind.
    Records {
        /// One or more, of the kind that was asked for.
        records: Records,
        /// How long they may be kept.
        ttl: Duration,
    },
    /// The name exists and has no record of the kind (RFC 2308 2.2).
    NoData {
        /// How long that may be kept.
        ttl: Duration,
    },
    /// The name does not exist (RFC 2308 2.1).
    NxDomain {
        /// How long that may be kept.
        ttl: Duration,
    },
    /// The question got no usable answer.
    Failed {
        /// Why.
        why: Failure,
        /// How long not to ask again.
        ttl: Duration,
    },
}

impl Outcome {
    /// How long the outcome may be kept.
    pub fn ttl(&self) -> Duration {
        match self {
            Outcome::Records { ttl, .. }
            | Outcome::NoData { ttl }
            | Outcome::NxDomain { ttl }
            | Outcome::Failed { ttl, .. } => *ttl,
        }
    }
}

/// Why a question ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The resolvers could not find out: the domain's own servers are broken, or DNSSEC validation failed.
    ServFail,
    /// The resolvers do not want to answer us.
    Refused,
    /// No resolver answered in time.
    Timeout,
    /// The resolvers cannot be reached.
    Unreachable,
    /// The resolvers do not understand the question.
    FormErr,
    /// The resolvers do not implement the question.
    NotImp,
    /// The resolvers sent another response code.
    OtherCode,
    /// The answer cannot be read or contradicts itself.
    Malformed,
    /// The CNAMEs of the answer lead back or go on for too long.
    CnameLoop,
    /// The resolvers sent us on to other servers: they are no recursive resolvers.
    Referral,
    /// The name or its records were denied, and nothing shows that the zone says so: a filter may.
    Unproven,
}

impl Failure {
    /// The name of the failure for a trace or a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Failure::ServFail => "servfail",
            Failure::Refused => "refused",
            Failure::Timeout => "timeout",
            Failure::Unreachable => "unreachable",
            Failure::FormErr => "formerr",
            Failure::NotImp => "notimp",
            Failure::OtherCode => "other_rcode",
            Failure::Malformed => "malformed",
            Failure::CnameLoop => "cname_loop",
            Failure::Referral => "referral",
            Failure::Unproven => "denial_unproven",
        }
    }

    /// Whether the same question may get an answer a moment later: it was lost, the resolver had too much load, or it denied names for
    /// a while.
    pub fn may_pass(self) -> bool {
        matches!(self, Failure::Timeout | Failure::Unreachable | Failure::Refused | Failure::Unproven)
    }
}

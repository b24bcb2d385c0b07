//! DNS as a client of recursive resolvers needs it: messages, the state machine of a lookup, lifetimes, and the way from a domain's
//! MX records to the hosts to ask.
//!
//! A [`lookup::Lookup`] asks a [`Question`] and ends with an [`Outcome`]. [`cache::Cache`] keeps the outcome for as long as [`ttl`]
//! says. From the outcomes for a domain's MX records and for the addresses of its hosts, [`mx`] makes the list of hosts to ask.
//!
//! Only [`message`] uses the library that knows the wire format.

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

/// The result of a lookup: records, a denial, or a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The name has records of this kind.
    Records {
        /// One or more records, of the kind that was asked for.
        records: Records,
        /// How long the records may be kept.
        ttl: Duration,
    },
    /// The name exists, but has no record of this kind (RFC 2308 2.2), or none that can be read.
    NoData {
        /// How long the denial may be kept.
        ttl: Duration,
    },
    /// The name does not exist (RFC 2308 2.1).
    NxDomain {
        /// How long the denial may be kept.
        ttl: Duration,
    },
    /// The question got no usable answer.
    Failed {
        /// The cause of the failure.
        why: Failure,
        /// How long the failure may be kept.
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

/// Why a question got no usable answer. If resolvers failed for different reasons, one of these is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The resolvers could not find the answer: for example, the domain's own servers are broken, or DNSSEC validation failed.
    ServFail,
    /// The resolvers refuse to answer us.
    Refused,
    /// No resolver answered in time.
    Timeout,
    /// The resolvers cannot be reached.
    Unreachable,
    /// The resolvers do not understand the question.
    FormErr,
    /// The resolvers do not support this kind of query.
    NotImp,
    /// The resolvers sent another response code.
    OtherCode,
    /// The answer cannot be read or contradicts itself, or it has to come over TCP and does not arrive whole.
    Malformed,
    /// The CNAMEs of the answer form a loop or a chain that is too long.
    CnameLoop,
    /// The resolvers refer us to other servers, so they are not recursive resolvers.
    Referral,
    /// The resolvers deny the name or its records, without proof that the zone does so. The denial may come from a filter.
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

    /// Whether the cause may be over a moment later, so that the same question gets an answer. Such causes are a lost message, or
    /// resolvers that are unreachable or overloaded or deny names for a while.
    pub fn may_pass(self) -> bool {
        matches!(self, Failure::Timeout | Failure::Unreachable | Failure::Refused | Failure::Unproven)
    }
}

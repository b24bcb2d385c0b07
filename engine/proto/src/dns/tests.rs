//! The resolver's side of DNS for tests: reads encoded questions and makes replies to them.

use super::{Name, Question, RecordKind};
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{self, SOA};
use hickory_proto::rr::{self, RData, Record, RecordType};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap_or_else(|| panic!("{text:?} is no name"))
}

pub(super) fn question(text: &str, kind: RecordKind) -> Question {
    Question { name: name(text), kind }
}

/// A reply that a test puts together.
pub(super) struct TestReply(pub(super) Message);

impl TestReply {
    /// A reply to this question, without records.
    pub(super) fn to(question: &[u8]) -> TestReply {
        let asked = Message::from_vec(question).expect("a readable question");
        let mut message = Message::new(asked.metadata.id, MessageType::Response, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.metadata.recursion_available = true;
        message.add_queries(asked.queries);
        TestReply(message)
    }

    pub(super) fn code(mut self, code: ResponseCode) -> TestReply {
        self.0.metadata.response_code = code;
        self
    }

    pub(super) fn truncated(mut self) -> TestReply {
        self.0.metadata.truncation = true;
        self
    }

    pub(super) fn id(mut self, id: u16) -> TestReply {
        self.0.metadata.id = id;
        self
    }

    pub(super) fn asking(mut self, name: &str, kind: RecordType) -> TestReply {
        self.0.queries = vec![Query::query(wire(name), kind)];
        self
    }

    pub(super) fn record(mut self, owner: &str, ttl: u32, data: RData) -> TestReply {
        self.0.add_answer(Record::from_rdata(wire(owner), ttl, data));
        self
    }

    pub(super) fn mx(self, owner: &str, ttl: u32, preference: u16, exchange: &str) -> TestReply {
        self.record(owner, ttl, RData::MX(rdata::MX::new(preference, wire(exchange))))
    }

    pub(super) fn a(self, owner: &str, ttl: u32, address: [u8; 4]) -> TestReply {
        self.record(owner, ttl, RData::A(rdata::A(Ipv4Addr::from(address))))
    }

    pub(super) fn aaaa(self, owner: &str, ttl: u32, address: &str) -> TestReply {
        let address: Ipv6Addr = address.parse().expect("an address");
        self.record(owner, ttl, RData::AAAA(rdata::AAAA(address)))
    }

    pub(super) fn cname(self, owner: &str, ttl: u32, target: &str) -> TestReply {
        self.record(owner, ttl, RData::CNAME(rdata::CNAME(wire(target))))
    }

    pub(super) fn soa(mut self, zone: &str, ttl: u32, minimum: u32) -> TestReply {
        let soa = SOA::new(wire("ns.example."), wire("hostmaster.example."), 1, 2, 3, 4, minimum);
        self.0.add_authority(Record::from_rdata(wire(zone), ttl, RData::SOA(soa)));
        self
    }

    pub(super) fn ns(mut self, zone: &str, server: &str) -> TestReply {
        self.0.add_authority(Record::from_rdata(wire(zone), 60, RData::NS(rdata::NS(wire(server)))));
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.to_vec().expect("a reply can be encoded")
    }
}

/// A name in the type of the library. Its labels, between the dots, may have any bytes; `.` is the root.
fn wire(text: &str) -> rr::Name {
    rr::Name::from_labels(text.split('.').filter(|l| !l.is_empty()).map(str::as_bytes)).expect("a wire name")
}

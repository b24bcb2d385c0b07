//! Values with several forms in a scenario: spans, MX sets and servers.

use crate::{
    conduct::{ChangeSpec, Given},
    spec::FaultSpec,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use std::fmt;

/// A time in milliseconds: `5`, or `[5, 20]` for a random value between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub least: u64,
    pub most: u64,
}

/// The longest time that a scenario may have.
pub(crate) const SPAN_MS_MAX: u64 = 3_600_000;

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Span, D::Error> {
        struct SpanReader;
        impl<'de> Visitor<'de> for SpanReader {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of milliseconds up to {SPAN_MS_MAX}, or [least, most]")
            }

            fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Span, E> {
                span(ms, ms)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Span, A::Error> {
                let least = list.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let most = list.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
                if list.next_element::<i64>()?.is_some() {
                    return Err(de::Error::invalid_length(3, &self));
                }
                span(least, most)
            }
        }

        fn span<E: de::Error>(least: i64, most: i64) -> Result<Span, E> {
            match (u64::try_from(least), u64::try_from(most)) {
                (Ok(least), Ok(most)) if least <= most && most <= SPAN_MS_MAX => Ok(Span { least, most }),
                _ => Err(de::Error::invalid_value(de::Unexpected::Signed(most), &SpanReader)),
            }
        }

        input.deserialize_any(SpanReader)
    }
}

/// The MX set of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MxSpec {
    /// Hosts of the domain itself, `mx1.NAME` and on; their number is random between the two.
    Own(u32, u32),
    /// Preferences and hosts, as in a zone file.
    Records(Vec<(u16, String)>),
    /// `"null"`: a null MX record (RFC 7505).
    Null,
    /// `"implicit"`: no MX, but an address (RFC 5321 5.1).
    Implicit,
    /// `"none"`: the name exists, but has neither MX nor address records.
    None,
}

impl Default for MxSpec {
    fn default() -> MxSpec {
        MxSpec::Own(1, 1)
    }
}

/// The most hosts of `Own`.
const OWN_HOSTS_MAX: u32 = 100;

impl<'de> Deserialize<'de> for MxSpec {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<MxSpec, D::Error> {
        input.deserialize_any(MxReader)
    }
}

struct MxReader;

impl<'de> Visitor<'de> for MxReader {
    type Value = MxSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a number of own hosts (1 to {OWN_HOSTS_MAX}), [least, most], \"null\", \"implicit\", \"none\", or \
             records such as [\"10 mx1.example\", \"20 mx2.example\"]"
        )
    }

    fn visit_i64<E: de::Error>(self, hosts: i64) -> Result<MxSpec, E> {
        own(hosts, hosts)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<MxSpec, E> {
        match word {
            "null" => Ok(MxSpec::Null),
            "implicit" => Ok(MxSpec::Implicit),
            "none" => Ok(MxSpec::None),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MxSpec, A::Error> {
        let mut numbers = Vec::new();
        let mut records = Vec::new();
        while let Some(element) = list.next_element::<toml::Value>()? {
            match element {
                toml::Value::Integer(number) => numbers.push(number),
                toml::Value::String(text) => records.push(record(&text)?),
                _ => return Err(de::Error::invalid_type(de::Unexpected::Other("neither"), &self)),
            }
        }
        match (numbers.as_slice(), records.is_empty()) {
            ([least, most], true) => own(*least, *most),
            ([], false) => Ok(MxSpec::Records(records)),
            _ => Err(de::Error::invalid_value(de::Unexpected::Seq, &self)),
        }
    }
}

fn own<E: de::Error>(least: i64, most: i64) -> Result<MxSpec, E> {
    match (u32::try_from(least), u32::try_from(most)) {
        (Ok(least), Ok(most)) if 1 <= least && least <= most && most <= OWN_HOSTS_MAX => {
            Ok(MxSpec::Own(least, most))
        }
        _ => Err(E::invalid_value(de::Unexpected::Signed(most), &MxReader)),
    }
}

fn record<E: de::Error>(text: &str) -> Result<(u16, String), E> {
    text.split_once(' ')
        .and_then(|(preference, host)| Some((preference.parse().ok()?, host.trim().to_ascii_lowercase())))
        .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &MxReader))
}

/// The behaviour of a mail server: `"postfix"`, or a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default, remote = "Self")]
pub(crate) struct ServerSpec {
    pub personality: String,
    /// The delay before each batch of replies.
    pub latency_ms: Span,
    pub certificate: Certificate,
    pub faults: Vec<FaultSpec>,
    /// Changes after which it stops answering truly.
    pub changes: Vec<ChangeSpec>,
    /// The behaviour of the nodes of its pool; empty without a pool.
    pub nodes: Vec<String>,
    pub given: Option<Given>,
    /// The reply to names that look random.
    pub filters_random: Option<String>,
}

impl Default for ServerSpec {
    fn default() -> ServerSpec {
        ServerSpec {
            personality: "postfix".into(),
            latency_ms: Span::default(),
            certificate: Certificate::default(),
            faults: Vec::new(),
            changes: Vec::new(),
            nodes: Vec::new(),
            given: None,
            filters_random: None,
        }
    }
}

/// The certificate after STARTTLS. Each is self-signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Certificate {
    #[default]
    SelfSigned,
    Expired,
}

impl<'de> Deserialize<'de> for ServerSpec {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<ServerSpec, D::Error> {
        struct ServerSpecReader;
        impl<'de> Visitor<'de> for ServerSpecReader {
            type Value = ServerSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a personality, or a table of personality, latency_ms, certificate, faults, \
                     changes, nodes, given, filters_random",
                )
            }

            fn visit_str<E: de::Error>(self, personality: &str) -> Result<ServerSpec, E> {
                Ok(ServerSpec { personality: personality.to_owned(), ..ServerSpec::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ServerSpec, A::Error> {
                // The function that `remote` derives reads the table.
                ServerSpec::deserialize(MapAccessDeserializer::new(map))
            }
        }
        input.deserialize_any(ServerSpecReader)
    }
}

//! The detail of a full check: the part of the API's answer that is made from a reason and the DNS facts of the domain.
//!
//! It is made again for each answer, also for a repeat. The caller adds the evidence, which is stored with the verdict.

use crate::{Checks, convert};
use api::{Detail, Dns, Flags, Reason};
use engine::proto::address::Address;
use engine::proto::facts::{DmarcPolicy, DnsFacts};
use engine::proto::lists::{Disposable, Lists, MailService};
use engine::proto::score::{Grade, ScoreFacts, score};

/// Collects the detail of a checked address. It is free, and its errors do not fail the check.
pub async fn gather(checks: &Checks, address: &Address, reason: Reason) -> Detail {
    let facts = checks.engine.facts(address.domain().clone()).await;
    detail(address, reason, facts, &checks.engine.lists())
}

/// The detail of an address. Without `facts` the domain's DNS could not be read.
pub fn detail(address: &Address, reason: Reason, facts: Option<DnsFacts>, lists: &Lists) -> Detail {
    let service = facts.as_ref().map_or(MailService::Unknown, |facts| facts.service);
    let disposable = lists.listing(address.domain().as_str()).at(service);
    let flags = flags(address, reason, lists, disposable.is_some());
    let score_facts = |dns| ScoreFacts {
        reason: convert::found(reason),
        role: flags.role_account,
        free: flags.free_email,
        dns,
    };
    let score = facts.as_ref().map(|facts| score(&score_facts(facts)));
    Detail {
        grade: score.map(|score| Grade::of(score).as_str()),
        score,
        inbox_provider: facts.as_ref().and_then(|facts| facts.provider),
        flags,
        dns: facts.map(dns),
        disposable_sources: disposable.map(Disposable::sources).unwrap_or_default(),
        evidence: None,
    }
}

fn flags(address: &Address, reason: Reason, lists: &Lists, disposable: bool) -> Flags {
    let (local, domain) = (address.local(), address.domain().as_str());
    Flags {
        free_email: lists.is_free(domain),
        role_account: lists.is_role(local),
        disposable: disposable || reason == Reason::Disposable,
        catch_all: reason == Reason::CatchAll,
        mailbox_exists: mailbox_exists(reason),
    }
}

/// A server that reports a full or disabled mailbox states that the mailbox exists.
fn mailbox_exists(reason: Reason) -> Option<bool> {
    match reason {
        Reason::MailboxExists | Reason::RoleAccount | Reason::InboxFull | Reason::MailboxDisabled => {
            Some(true)
        }
        Reason::MailboxNotFound => Some(false),
        Reason::InvalidSyntax
        | Reason::Disposable
        | Reason::Spamtrap
        | Reason::CatchAll
        | Reason::Unverifiable
        | Reason::PossibleTypo
        | Reason::NoMx
        | Reason::FastCheckPassed => None,
    }
}

fn dns(facts: DnsFacts) -> Dns {
    Dns {
        mx: !facts.mx_hosts.is_empty(),
        mx_hosts: facts.mx_hosts,
        spf: facts.spf,
        dmarc_policy: facts.dmarc_policy.map(DmarcPolicy::as_str),
        dkim_selectors: facts.dkim_selectors,
        bimi: facts.bimi,
        ptr: facts.ptr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_from_the_address_and_the_reason() {
        // Columns: free mail, role account, disposable, catch-all.
        for (address, reason, expected, exists) in [
            ("joe@example.com", Reason::MailboxExists, [false; 4], Some(true)),
            ("info@gmail.com", Reason::RoleAccount, [true, true, false, false], Some(true)),
            ("joe@example.com", Reason::InboxFull, [false; 4], Some(true)),
            ("joe@example.com", Reason::MailboxDisabled, [false; 4], Some(true)),
            ("sales@example.com", Reason::MailboxNotFound, [false, true, false, false], Some(false)),
            ("joe@example.com", Reason::CatchAll, [false, false, false, true], None),
            ("joe@example.com", Reason::Unverifiable, [false; 4], None),
            ("joe@mailinator.com", Reason::Disposable, [false, false, true, false], None),
            ("joe@example.com", Reason::Spamtrap, [false; 4], None),
        ] {
            let got = flags(&Address::parse(address).unwrap(), reason, &Lists::default(), false);
            assert_eq!(
                ([got.free_email, got.role_account, got.disposable, got.catch_all], got.mailbox_exists),
                (expected, exists),
                "{address} {reason:?}"
            );
        }
    }

    #[test]
    fn the_description_names_every_inbox_provider() {
        let description = serde_json::to_value(api::openapi::description("/").unwrap()).unwrap();
        let field = &description["components"]["schemas"]["Detail"]["properties"]["inbox_provider"];
        let text = field["description"].as_str().unwrap();
        for provider in engine::proto::dns::mx::inbox_providers() {
            assert!(text.contains(&format!("`{provider}`")), "{provider}: {text}");
        }
    }

    #[test]
    fn without_dns_all_that_hangs_on_it_is_null() {
        let address = Address::parse("joe@example.com").unwrap();
        let got = detail(&address, Reason::MailboxExists, None, &Lists::default());
        assert_eq!((got.grade, got.score, got.inbox_provider, got.dns), (None, None, None, None));
        assert_eq!((got.flags.disposable, got.disposable_sources.len()), (false, 0));
        let facts = DnsFacts { provider: Some("google"), spf: true, ..DnsFacts::default() };
        let got = detail(&address, Reason::MailboxExists, Some(facts), &Lists::default());
        assert_eq!((got.grade, got.score, got.inbox_provider), (Some("B"), Some(85), Some("google")));
        assert!(got.dns.is_some_and(|dns| !dns.mx && dns.spf && dns.dmarc_policy.is_none()));
    }

    #[test]
    fn the_sources_of_a_disposable_domain_are_named() {
        let table = MailService::Disposable("throw.example 2026-01-01 someone");
        for (domain, service, sources) in [
            ("mailinator.com", None, &["mailchecker", "disposable-email-domains"] as &[_]),
            ("0-attorney.com", None, &["mailchecker"]),
            ("0-attorney.com", Some(MailService::Own), &["mailchecker"]),
            ("0-attorney.com", Some(MailService::OfFirms), &[]),
            ("example.com", Some(table), &["mail host: throw.example 2026-01-01 someone"]),
            ("example.com", None, &[]),
        ] {
            let facts = service.map(|service| DnsFacts { service, ..DnsFacts::default() });
            let address = Address::parse(&format!("joe@{domain}")).unwrap();
            let got = detail(&address, Reason::Unverifiable, facts, &Lists::default());
            assert_eq!(got.disposable_sources, sources, "{domain} {service:?}");
            assert_eq!(got.flags.disposable, !sources.is_empty(), "{domain} {service:?}");
        }
    }
}

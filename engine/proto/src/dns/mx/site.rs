//! The operator of a domain's mail hosts: the unit of pacing, pooling and sharding.

use crate::address::registrable;
use crate::dns::Name;
use std::borrow::Cow;
use std::net::IpAddr;

/// A set of mail hosts with one operator.
///
/// By default it is the registrable domain of the best host, or the address of the host if that domain is the recipient's own. A
/// table has the operators with hosts under many domains, or with names of customers under one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    name: Cow<'static, str>,
    provider: &'static str,
}

impl Site {
    /// The site of a host.
    pub fn of(host: &Name) -> Site {
        match OPERATORS.iter().find(|(suffix, ..)| host.is_under(suffix)) {
            Some(&(_, site, provider)) => Site { name: Cow::Borrowed(site), provider },
            None => Site { name: Cow::Owned(registrable(host.as_str()).to_owned()), provider: OTHER },
        }
    }

    /// The site of the operator of the host at an address.
    pub fn at(address: IpAddr) -> Site {
        Site { name: Cow::Owned(format!("[{address}]")), provider: OTHER }
    }

    /// Whether the table has the operator.
    pub fn is_known(&self) -> bool {
        matches!(self.name, Cow::Borrowed(_))
    }

    /// The key: a name of the table such as `google`, a domain, or an address in brackets.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The inbox provider's slug, as the API's `inbox_provider` has it; `other` when it is in no table.
    pub fn provider(&self) -> &'static str {
        self.provider
    }
}

/// Suffix of the host, site, inbox provider. The first row that matches counts. The names are those that the
/// operators give to customers for their MX records, in their public help pages.
const OPERATORS: &[(&str, &str, &str)] = &[
    // Gmail, Google Workspace and hosts of Google's own.
    ("google.com", "google", "google"),
    ("googlemail.com", "google", "google"),
    // Microsoft: Exchange Online takes no more than its filter lets in; outlook.com is a service of its own.
    ("olc.protection.outlook.com", "outlook", "microsoft"),
    ("mail.protection.outlook.com", "microsoft365", "microsoft"),
    ("mail.protection.office365.us", "microsoft365", "microsoft"),
    ("mx.microsoft", "microsoft365", "microsoft"),
    ("protection.partner.outlook.cn", "microsoft365-cn", "microsoft"),
    ("hotmail.com", "outlook", "microsoft"),
    // Yahoo, AOL and the domains that Yahoo hosts.
    ("yahoodns.net", "yahoo", "yahoo"),
    ("yahoo.co.jp", "yahoo-jp", "yahoo"),
    ("mail.icloud.com", "icloud", "icloud"),
    ("zoho.com", "zoho", "zoho"),
    ("zoho.eu", "zoho", "zoho"),
    ("zoho.in", "zoho", "zoho"),
    ("zoho.com.au", "zoho", "zoho"),
    ("zoho.com.cn", "zoho", "zoho"),
    ("zoho.jp", "zoho", "zoho"),
    ("zohomail.com", "zoho", "zoho"),
    ("protonmail.ch", "proton", "proton"),
    ("messagingengine.com", "fastmail", "fastmail"),
    ("yandex.ru", "yandex", "yandex"),
    ("yandex.net", "yandex", "yandex"),
    ("yandex.com", "yandex", "yandex"),
    ("mail.ru", "mailru", "mailru"),
    // GMX and WEB.DE are run by one house, as is 1&1's hosting, on hosts of its own.
    ("gmx.net", "gmx", "gmx"),
    ("gmx.com", "gmx", "gmx"),
    ("web.de", "gmx", "gmx"),
    ("kundenserver.de", "ionos", "ionos"),
    ("ionos.com", "ionos", "ionos"),
    ("ionos.de", "ionos", "ionos"),
    ("ionos.co.uk", "ionos", "ionos"),
    ("perfora.net", "ionos", "ionos"),
    ("t-online.de", "t-online", "t-online"),
    ("qq.com", "qq", "qq"),
    ("netease.com", "netease", "netease"),
    ("163.com", "netease", "netease"),
    ("126.com", "netease", "netease"),
    ("qiye.aliyun.com", "aliyun", "aliyun"),
    ("mxhichina.com", "aliyun", "aliyun"),
    ("naver.com", "naver", "naver"),
    ("worksmobile.com", "naver", "naver"),
    ("kakao.com", "kakao", "kakao"),
    ("daum.net", "kakao", "kakao"),
    // Filters in front of the customers' own servers.
    ("pphosted.com", "proofpoint", "proofpoint"),
    ("ppe-hosted.com", "proofpoint-essentials", "proofpoint"),
    ("mimecast.com", "mimecast", "mimecast"),
    ("mimecast.co.za", "mimecast", "mimecast"),
    ("barracudanetworks.com", "barracuda", "barracuda"),
    ("cuda-inc.com", "barracuda", "barracuda"),
    ("iphmx.com", "cisco", "cisco"),
    ("messagelabs.com", "symantec", "symantec"),
    ("trendmicro.com", "trendmicro", "trendmicro"),
    ("trendmicro.eu", "trendmicro", "trendmicro"),
    ("fireeyecloud.com", "trellix", "trellix"),
    ("sophos.com", "sophos", "sophos"),
    ("hornetsecurity.com", "hornetsecurity", "hornetsecurity"),
    ("antispameurope.com", "hornetsecurity", "hornetsecurity"),
    ("antispamcloud.com", "spamexperts", "spamexperts"),
    ("mailspamprotection.com", "siteground", "siteground"),
    ("mx.cloudflare.net", "cloudflare", "cloudflare"),
    // Hosting houses.
    ("secureserver.net", "godaddy", "godaddy"),
    ("emailsrvr.com", "rackspace", "rackspace"),
    ("registrar-servers.com", "namecheap", "namecheap"),
    ("privateemail.com", "namecheap", "namecheap"),
    ("hostinger.com", "hostinger", "hostinger"),
    ("titan.email", "titan", "titan"),
    ("ovh.net", "ovh", "ovh"),
    ("gandi.net", "gandi", "gandi"),
    ("migadu.com", "migadu", "migadu"),
    ("mailbox.org", "mailbox.org", "mailbox.org"),
    ("tutanota.de", "tuta", "tuta"),
    ("mailgun.org", "mailgun", "mailgun"),
    ("sendgrid.net", "sendgrid", "sendgrid"),
    ("improvmx.com", "improvmx", "improvmx"),
    ("forwardemail.net", "forwardemail", "forwardemail"),
];

/// The inbox provider of all other hosts.
const OTHER: &str = "other";

/// The values of the API's `inbox_provider`, of which some repeat.
pub fn inbox_providers() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(_, _, provider)| *provider).chain([OTHER])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_sites() {
        for (host, site, provider) in [
            ("aspmx.l.google.com", "google", "google"),
            ("alt4.aspmx.l.google.com", "google", "google"),
            ("aspmx2.googlemail.com", "google", "google"),
            ("smtp.google.com", "google", "google"),
            ("gmail-smtp-in.l.google.com", "google", "google"),
            ("example-com.mail.protection.outlook.com", "microsoft365", "microsoft"),
            ("example-com.a-v1.mx.microsoft", "microsoft365", "microsoft"),
            ("outlook-com.olc.protection.outlook.com", "outlook", "microsoft"),
            ("mta7.am0.yahoodns.net", "yahoo", "yahoo"),
            ("mx01.mail.icloud.com", "icloud", "icloud"),
            ("mx.zoho.eu", "zoho", "zoho"),
            ("mailsec.protonmail.ch", "proton", "proton"),
            ("in1-smtp.messagingengine.com", "fastmail", "fastmail"),
            ("mx.yandex.net", "yandex", "yandex"),
            ("mxs.mail.ru", "mailru", "mailru"),
            ("mx-ha.web.de", "gmx", "gmx"),
            ("mx00.emig.gmx.net", "gmx", "gmx"),
            ("mx3.qq.com", "qq", "qq"),
            ("qiye163mx01.mxmail.netease.com", "netease", "netease"),
            ("mxa-0012ab01.gslb.pphosted.com", "proofpoint", "proofpoint"),
            ("eu-smtp-inbound-1.mimecast.com", "mimecast", "mimecast"),
            ("d12345a.ess.barracudanetworks.com", "barracuda", "barracuda"),
            ("mx1.hc123-45.iphmx.com", "cisco", "cisco"),
            ("mx.example.co.uk", "example.co.uk", "other"),
            ("mail.example.test", "example.test", "other"),
            ("example.com", "example.com", "other"),
            ("notgoogle.com", "notgoogle.com", "other"),
            ("google.com.example.net", "example.net", "other"),
        ] {
            let found = Site::of(&Name::parse(host).expect("a name"));
            assert_eq!((found.as_str(), found.provider()), (site, provider), "{host}");
        }
    }

    #[test]
    fn no_row_hides_another() {
        for (at, (suffix, ..)) in OPERATORS.iter().enumerate() {
            let name = Name::parse(suffix).expect("a name");
            let first = OPERATORS.iter().position(|(s, ..)| name.is_under(s));
            assert_eq!(first, Some(at), "{suffix}");
        }
    }
}

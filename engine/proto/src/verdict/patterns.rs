//! The rules, in the order in which they are tried: the first that fits decides.
//!
//! A rule reads the stage, the reply code, the enhanced code, the provider and the signals of the text. In general, rules about us
//! come before rules about the mailbox, and rules that read the text come before rules that read only codes. So neither a code nor
//! a single word turns a refusal about us into a missing mailbox (`classify.rs` names the exception).
//!
//! `source` gives the sources of a rule by letters:
//!
//! | letter | source |
//! | --- | --- |
//! | S | sisimai (BSD-2) |
//! | F | smtp-field-manual of ActiveCampaign (MIT) |
//! | Z | zone-mta |
//! | R | an RFC, or the IANA registry of enhanced status codes (RFC 3463, RFC 5248) |
//! | O | replies of a server of this kind, observed by the interoperability suite (`tools/xtask/src/interop`) |
//! | W | wording in general use |

use super::lexicon::Signal::{self, *};
use super::lexicon::Signals;
use super::provider::Provider;
use super::{Class, Scope, Stage};
use crate::smtp::status::EnhancedCode;

/// The facts of a reply that rules read.
pub(super) struct Facts {
    pub(super) stage: Stage,
    pub(super) code: u16,
    pub(super) status: Option<EnhancedCode>,
    pub(super) provider: Option<Provider>,
    pub(super) signals: Signals,
    /// The text repeats our name or address, and does not repeat the recipient's address. So the text is about us.
    pub(super) echoes_us_alone: bool,
}

/// A rule. If all its conditions hold, the reply gets its class and its scope.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) class: Class,
    pub(super) scope: Scope,
    pub(super) source: &'static str,
    at: At,
    code: Code,
    /// One of these enhanced codes has to match: subject, lowest detail, highest detail. If there are none, every reply matches.
    status: &'static [(u16, u16, u16)],
    providers: &'static [Provider],
    says: Signals,
    with: Signals,
    unless: Signals,
    /// Whether [`Facts::echoes_us_alone`] has to be true.
    echo: bool,
    /// See [`super::classify::Classification::to_all`].
    pub(super) to_all: bool,
}

/// The stages at which a rule applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Any,
    /// At RCPT of any recipient.
    Rcpt,
    /// Before RCPT.
    Early,
    Mail,
}

/// The reply codes for which a rule applies.
#[derive(Clone, Copy)]
enum Code {
    Any,
    Transient,
    Permanent,
    Of(&'static [u16]),
    PermanentBut(&'static [u16]),
}

/// Permanent codes about a command, its parameters, authentication, encryption or the whole host, and never about one mailbox (RFC
/// 5321 4.2.2, RFC 4954 6, RFC 7504).
const ABOUT_COMMANDS: &[u16] = &[502, 503, 504, 521, 523, 530, 534, 535, 538, 555, 556];
/// [`ABOUT_COMMANDS`] without 521 and 556, the codes of hosts that take no mail (RFC 7504): a text that names a full or disabled
/// mailbox counts more than these two codes.
const ABOUT_OUR_COMMANDS: &[u16] = &[502, 503, 504, 523, 530, 534, 535, 538, 555];

/// The highest detail of an enhanced code. A range from 0 to `ALL` covers a whole subject.
const ALL: u16 = 999;

/// Some rules take a word such as "full" for a statement about the mailbox only because of the code. They do not apply if the text
/// has one of these signals, because then the word may be about something else.
const FULL_BY_A_WORD_UNLESS: [Signal; 9] =
    [Uncertain, OurName, SenderWord, UsNamed, Conduct, Denied, ServerDisk, ServerNamed, Foreign];

impl Rule {
    const fn new(name: &'static str, class: Class, scope: Scope, source: &'static str) -> Rule {
        Rule {
            name,
            class,
            scope,
            source,
            at: At::Rcpt,
            code: Code::Any,
            status: &[],
            providers: &[],
            says: Signals::of(&[]),
            with: Signals::of(&[]),
            unless: Signals::of(&[]),
            echo: false,
            to_all: false,
        }
    }

    /// Marks a refusal about us or the session: no server would give it to one recipient only.
    const fn said_to_all(self) -> Rule {
        Rule { to_all: true, ..self }
    }

    const fn with_echo_of_us(self) -> Rule {
        Rule { echo: true, ..self }
    }

    const fn at(self, at: At) -> Rule {
        Rule { at, ..self }
    }

    const fn code(self, code: Code) -> Rule {
        Rule { code, ..self }
    }

    const fn status(self, status: &'static [(u16, u16, u16)]) -> Rule {
        Rule { status, ..self }
    }

    const fn providers(self, providers: &'static [Provider]) -> Rule {
        Rule { providers, ..self }
    }

    /// Requires at least one of these signals.
    const fn says(self, signals: &[Signal]) -> Rule {
        Rule { says: Signals::of(signals), ..self }
    }

    /// Requires at least one of these signals, in addition to [`Rule::says`].
    const fn with(self, signals: &[Signal]) -> Rule {
        Rule { with: Signals::of(signals), ..self }
    }

    /// Requires that the text raised none of these signals.
    const fn unless(self, signals: &[Signal]) -> Rule {
        Rule { unless: Signals::of(signals), ..self }
    }

    /// Whether the rule needs only the stage and the reply code.
    pub(super) fn asks_for_code_alone(&self) -> bool {
        let none = Signals::default();
        let silent = self.says == none && self.with == none && self.unless == none;
        silent && !self.echo && self.status.is_empty() && self.providers.is_empty()
    }

    /// Whether a refusal with the class of this rule may lead to a definite verdict.
    fn states_something(&self) -> bool {
        matches!(self.class, NotFound | Full | Disabled | ExistsThrottled | ExistsRestricted | DomainDead)
    }

    /// Whether the rule takes the text for a statement about the mailbox itself, and not only about the right to write to the
    /// mailbox.
    fn speaks_of_mailbox(&self) -> bool {
        self.states_something() && self.class != ExistsRestricted && !self.says.is_empty()
    }

    /// Whether all conditions hold. Two conditions apply to every rule: a text that is about us ([`Facts::echoes_us_alone`]) cannot
    /// lead to a definite verdict, and a text that names us first is not taken for a statement about the mailbox.
    pub(super) fn fits(&self, facts: &Facts) -> bool {
        let said = |wanted: Signals| wanted == Signals::default() || facts.signals.any_of(wanted);
        self.at.fits(facts.stage)
            && self.code.fits(facts.code)
            && said(self.says)
            && said(self.with)
            && !facts.signals.any_of(self.unless)
            && (self.status.is_empty() || facts.status.is_some_and(|status| is_among(status, self.status)))
            && (facts.echoes_us_alone || !self.echo)
            && !(facts.echoes_us_alone && self.states_something())
            && !(facts.signals.any_of(Signals::of(&[UsFirst])) && self.speaks_of_mailbox())
            && (self.providers.is_empty()
                || facts.provider.is_some_and(|provider| self.providers.contains(&provider)))
    }
}

fn is_among(status: EnhancedCode, ranges: &[(u16, u16, u16)]) -> bool {
    ranges
        .iter()
        .any(|&(subject, least, most)| status.subject == subject && (least..=most).contains(&status.detail))
}

impl At {
    fn fits(self, stage: Stage) -> bool {
        match self {
            At::Any => true,
            At::Rcpt => matches!(stage, Stage::Rcpt | Stage::Control),
            At::Early => matches!(stage, Stage::Banner | Stage::Ehlo | Stage::Mail),
            At::Mail => stage == Stage::Mail,
        }
    }
}

impl Code {
    fn fits(self, code: u16) -> bool {
        match self {
            Code::Any => true,
            Code::Transient => code / 100 == 4,
            Code::Permanent => code / 100 == 5,
            Code::Of(codes) => codes.contains(&code),
            Code::PermanentBut(codes) => code / 100 == 5 && !codes.contains(&code),
        }
    }
}

use Class::*;
use Code::{Of, Permanent, PermanentBut, Transient};
use Scope::*;

/// All rules. The last rule fits every reply.
pub(super) const RULES: &[Rule] = &[
    // Positive replies.
    Rule::new("accepted-rcpt", Accepted, Recipient, "R").code(Of(&[250, 251])),
    Rule::new("accepted-early", Accepted, Session, "R").at(At::Early).code(Of(&[220, 250])),
    Rule::new("cannot-verify-252", Temporary, Recipient, "R").code(Of(&[252])),
    // Codes and texts with a meaning that only one provider gives them, and codes and texts about us that count before any other
    // words.
    Rule::new("all-recipients-denied", Policy, Us, "F").code(Permanent).says(&[AllRecipients]).said_to_all(),
    Rule::new("provider-unknown", NotFound, Recipient, "S")
        .code(PermanentBut(ABOUT_COMMANDS))
        .says(&[ProviderUnknown]),
    Rule::new("edge-blocking-5.4.1", NotFound, Recipient, "S Z")
        .code(Permanent)
        .status(&[(4, 1, 1)])
        .says(&[Rejected])
        .with(&[Denied])
        .unless(&[Listed, OurName, SenderRefused, TooMuch, Uncertain, Conduct, Relaying, SomeHost, MailOnly]),
    Rule::new("blocked-540", Disabled, Recipient, "S F").code(Of(&[540])).says(&[Rejected]).with(&[Conduct]),
    Rule::new("target-policy", Disabled, Recipient, "F").code(Permanent).says(&[TargetPolicy]),
    Rule::new("qq-unavailable-or-denied", ExistsThrottled, Recipient, "F")
        .providers(&[Provider::Qq])
        .says(&[UnavailableOrDenied]),
    Rule::new("microsoft-restricted", ExistsRestricted, Recipient, "S")
        .status(&[(7, 12, 12), (7, 124, 124), (7, 129, 129), (7, 133, 136)])
        .unless(&[Listed]),
    Rule::new("microsoft-receive-limit", ExistsThrottled, Recipient, "S").status(&[(2, 121, 122)]),
    Rule::new("microsoft-disabled", Disabled, Recipient, "S").code(Permanent).status(&[(7, 504, 505)]),
    Rule::new("microsoft-unknown-recipient", NotFound, Recipient, "S")
        .code(Permanent)
        .status(&[(1, 351, 351)])
        .unless(&[Listed]),
    Rule::new("tenant-closed", DomainDead, Site, "S").says(&[TenantClosed]),
    Rule::new("microsoft-wants-ipv4", Policy, Session, "S")
        .at(At::Any)
        .status(&[(7, 510, 510)])
        .said_to_all(),
    Rule::new("wants-ipv4", Policy, Session, "W")
        .at(At::Any)
        .says(&[WantsIpv4])
        .unless(&[NoMailbox])
        .said_to_all(),
    Rule::new("microsoft-relay-5.7.64", Relay, Host, "S").at(At::Any).status(&[(7, 64, 64)]),
    Rule::new("microsoft-throttled", Throttled, Us, "S F")
        .at(At::Any)
        .code(Transient)
        .status(&[(7, 500, 500), (7, 650, 652)]),
    Rule::new("microsoft-blocked", Policy, Us, "S")
        .at(At::Any)
        .status(&[(7, 500, 699), (7, 850, 899)])
        .said_to_all(),
    Rule::new("sender-authentication", Policy, Us, "R S").at(At::Any).status(&[(7, 20, 27)]).said_to_all(),
    Rule::new("sender-status", Policy, Sender, "R").at(At::Any).status(&[(1, 7, 9)]).said_to_all(),
    // Greylisting, mailboxes that are restricted or get too much mail, and refusals because of the sender, a blocklist, relaying or
    // authentication.
    Rule::new("greylisted", Greylisted, Recipient, "W").at(At::Any).says(&[Greylist]),
    Rule::new("restricted", ExistsRestricted, Recipient, "S W")
        .says(&[Restricted])
        .unless(&[Listed, Relaying, TooMuch]),
    Rule::new("sender-refused", Policy, Sender, "S W").at(At::Any).says(&[SenderRefused]).said_to_all(),
    Rule::new("mailbox-rate", ExistsThrottled, Recipient, "S F")
        .says(&[MailboxRate])
        .unless(&[Listed, OurName, Uncertain]),
    Rule::new("blocklist", Policy, Us, "S F Z W").at(At::Any).says(&[Listed]).said_to_all(),
    Rule::new("relay", Relay, Host, "S W").at(At::Any).says(&[Relaying]),
    Rule::new("encryption-required", AuthRequired, Session, "R W")
        .at(At::Any)
        .says(&[Encrypt])
        .unless(&[NoMailbox, FullMailbox, DisabledMailbox])
        .said_to_all(),
    Rule::new("authentication-required", AuthRequired, Host, "R W")
        .at(At::Any)
        .says(&[Authenticate])
        .unless(&[NoMailbox, FullMailbox, DisabledMailbox]),
    // Refusals because of space, speed or our name, and replies of servers that have not verified the mailbox yet.
    Rule::new("message-status", Unclear, Session, "R")
        .at(At::Any)
        .status(&[(2, 3, 3), (3, 4, 4), (6, 0, ALL)])
        .unless(&[FullMailbox, NoMailbox, DisabledMailbox]),
    Rule::new("send-quota", Throttled, Us, "S W").at(At::Any).says(&[SendQuota]),
    Rule::new("full", Full, Recipient, "S F W")
        .code(PermanentBut(ABOUT_OUR_COMMANDS))
        .says(&[FullMailbox])
        .unless(&[Uncertain, OurName]),
    Rule::new("full-for-now", Full, Recipient, "S F W")
        .code(Transient)
        .says(&[FullMailbox])
        .unless(&[Uncertain, OurName]),
    // The text of the next two rules does not say what is full, but the code does.
    Rule::new("full-552", Full, Recipient, "R")
        .code(Of(&[552]))
        .says(&[Fullness])
        .unless(&FULL_BY_A_WORD_UNLESS),
    Rule::new("full-word", Full, Recipient, "S R")
        .status(&[(1, 1, 1), (2, 0, ALL)])
        .says(&[Fullness])
        .unless(&FULL_BY_A_WORD_UNLESS),
    Rule::new("too-many-unknown", Policy, Us, "Z").at(At::Any).says(&[TooManyBad]).said_to_all(),
    Rule::new("session-limit", Throttled, Session, "S W").at(At::Any).says(&[SessionLimit]),
    Rule::new("too-many-recipients-status", Throttled, Session, "R").at(At::Any).status(&[(5, 3, 3)]),
    Rule::new("throttled", Throttled, Us, "S F W").at(At::Any).says(&[TooMuch]),
    Rule::new("throttled-status", Throttled, Us, "R").at(At::Any).status(&[(7, 28, 28)]),
    Rule::new("our-name", Policy, Us, "S F Z W").at(At::Any).says(&[OurName]).said_to_all(),
    Rule::new("verifying", Temporary, Recipient, "S F W").code(Transient).says(&[Verifying]),
    Rule::new("not-verified", Temporary, Recipient, "W")
        .code(Permanent)
        .says(&[Verifying])
        .unless(&[NoMailbox, DisabledMailbox]),
    Rule::new("server-disk", Temporary, Host, "R S")
        .at(At::Any)
        .says(&[ServerDisk])
        .unless(&[NoMailbox, DisabledMailbox]),
    Rule::new("no-space", Temporary, Host, "R W").at(At::Any).status(&[(3, 0, ALL)]).says(&[NoSpace]),
    Rule::new("full-status", Full, Recipient, "R").status(&[(2, 2, 2)]).unless(&[
        Uncertain,
        SenderWord,
        UsNamed,
        OurName,
        Conduct,
        Denied,
        Foreign,
        ServerNamed,
        SomeHost,
    ]),
    // Errors in the protocol.
    Rule::new("protocol", Unclear, Session, "R")
        .at(At::Any)
        .code(Of(&[500, 502, 503, 504]))
        .unless(&[NoMailbox, Conduct, Denied, DisabledMailbox])
        .said_to_all(),
    // Not `said_to_all`, because the refused parameter may be the address.
    Rule::new("parameter-syntax", Unclear, Session, "R").code(Of(&[501])).says(&[Protocol]),
    Rule::new("parameters", Unclear, Session, "R").at(At::Any).code(Of(&[501, 555])).unless(&[
        NoMailbox,
        Conduct,
        Denied,
        DisabledMailbox,
    ]),
    Rule::new("auth-code", AuthRequired, Host, "R").at(At::Any).code(Of(&[530, 534, 535])),
    Rule::new("encryption-code", AuthRequired, Session, "R").at(At::Any).code(Of(&[523, 538])).said_to_all(),
    Rule::new("auth-status", AuthRequired, Session, "R").at(At::Any).status(&[(7, 10, 11)]).said_to_all(),
    // The mailbox is disabled.
    Rule::new("disabled", Disabled, Recipient, "S F W")
        .code(PermanentBut(ABOUT_OUR_COMMANDS))
        .says(&[DisabledMailbox])
        .unless(&[OurName, Uncertain]),
    Rule::new("disabled-for-now", Temporary, Recipient, "W").code(Transient).says(&[DisabledMailbox]),
    // Refusals about the domain.
    Rule::new("mail-sender", Policy, Sender, "W")
        .at(At::Mail)
        .says(&[SenderWord, NoMailbox, NoDomain, SomeDomain, SomeHost, NotServed]),
    Rule::new("no-mail-service-here", DomainDead, Host, "R")
        .at(At::Early)
        .code(Of(&[521, 554, 556]))
        .says(&[NoDomain, SomeHost])
        .unless(&[Conduct, Denied]),
    Rule::new("host-takes-no-mail", DomainDead, Host, "R").at(At::Early).code(Of(&[521, 556])),
    Rule::new("domain-dead", DomainDead, Site, "S W")
        .says(&[NoDomain])
        .unless(&[SenderWord, Conduct, Uncertain, NotServed, NoMailbox]),
    // If the text does not say which host or domain it means, the code shows that it means the recipient's.
    Rule::new("domain-word", DomainDead, Site, "S R")
        .status(&[(1, 2, 2), (4, 4, 4)])
        .says(&[SomeDomain, SomeHost])
        .unless(&[SenderWord, Conduct, Uncertain, Foreign]),
    // The code says that the mailbox is not here, and no other host is named.
    Rule::new("not-local-551", NotFound, Recipient, "R")
        .code(Of(&[551]))
        .says(&[NotLocal, SomeDomain])
        .unless(&[SenderWord, Conduct, Denied, OurName, Uncertain]),
    Rule::new("not-served", Relay, Host, "S W")
        .says(&[NotServed, SomeDomain, NotLocal])
        .unless(&[SenderWord, Conduct, NoMailbox]),
    // Content, conduct, and texts that leave open what the cause is.
    Rule::new("conduct", Policy, Us, "S F Z W").at(At::Any).says(&[Conduct]),
    Rule::new("sender-word", Policy, Sender, "W").at(At::Any).code(Permanent).says(&[SenderWord]).unless(&[
        NoMailbox,
        DisabledMailbox,
        FullMailbox,
    ]),
    Rule::new("perhaps-unknown-5.1.1", NotFound, Recipient, "S")
        .code(PermanentBut(ABOUT_COMMANDS))
        .status(&[(1, 1, 1)])
        .says(&[NoMailbox])
        .with(&[Uncertain])
        .unless(&[Denied, NotNow, Fullness, SenderWord, UsNamed, Authenticate]),
    Rule::new("uncertain", Unclear, Us, "W").code(Permanent).says(&[Uncertain]),
    // The text says that there is no such mailbox, or gives no clear cause.
    Rule::new("unknown-for-now", Temporary, Recipient, "W")
        .code(Transient)
        .says(&[NoMailbox, Unavailable])
        .unless(&[RetrySoon]),
    Rule::new("unknown-temporarily", Temporary, Recipient, "W")
        .code(Permanent)
        .says(&[NoMailbox, Unavailable, Rejected])
        .with(&[NotNow]),
    Rule::new("unknown", NotFound, Recipient, "S F Z W")
        .code(PermanentBut(ABOUT_COMMANDS))
        .says(&[NoMailbox]),
    Rule::new("disabled-word", Disabled, Recipient, "S W")
        .code(PermanentBut(ABOUT_COMMANDS))
        .status(&[(1, 0, ALL), (2, 0, ALL)])
        .says(&[DisabledBare]),
    Rule::new("echo-of-us", Policy, Us, "W").code(Permanent).with_echo_of_us().said_to_all(),
    Rule::new("about-us", Policy, Us, "W").code(Permanent).says(&[UsFirst]),
    Rule::new("denied", Policy, Us, "W").at(At::Any).code(Permanent).says(&[Denied]),
    // Permanent refusals, by the enhanced code. Unknown words may contradict the code, so the rules about unknown words come first.
    Rule::new("uncertain-5.1.1", Unclear, Recipient, "W")
        .code(PermanentBut(ABOUT_COMMANDS))
        .status(&[(1, 1, 1)])
        .says(&[Foreign, UsNamed, ServerNamed, SomeHost, MailOnly, NoSpace]),
    Rule::new("uncertain-status", Unclear, Recipient, "W")
        .code(PermanentBut(ABOUT_COMMANDS))
        .status(&[(1, 0, 6), (1, 10, 10), (2, 0, ALL), (4, 4, 4), (7, 13, 13)])
        .says(&[Foreign, UsNamed, SomeHost, MailOnly, NoSpace]),
    Rule::new("status-temporarily", Temporary, Recipient, "W")
        .code(Permanent)
        .status(&[(1, 0, ALL), (2, 0, ALL)])
        .says(&[NotNow]),
    Rule::new("null-mx-status-exchange", NotFound, Recipient, "S")
        .code(PermanentBut(ABOUT_COMMANDS))
        .status(&[(1, 10, 10)])
        .providers(&[Provider::Microsoft365, Provider::Outlook]),
    Rule::new("null-mx-status", DomainDead, Site, "R")
        .code(PermanentBut(ABOUT_COMMANDS))
        .status(&[(1, 10, 10)]),
    Rule::new("unknown-status", NotFound, Recipient, "R S").code(PermanentBut(ABOUT_COMMANDS)).status(&[
        (1, 1, 1),
        (1, 3, 3),
        (1, 6, 6),
    ]),
    // The reply of OpenSMTPD for a user that its virtual table does not have. No RFC defines the code 524.
    Rule::new("opensmtpd-unknown", NotFound, Recipient, "O").code(Of(&[524])).status(&[(2, 4, 4)]),
    Rule::new("domain-status", DomainDead, Site, "R")
        .code(PermanentBut(&[500, 502, 503, 504, 555]))
        .status(&[(1, 2, 2), (4, 4, 4)]),
    Rule::new("disabled-status", Disabled, Recipient, "R")
        .code(PermanentBut(ABOUT_COMMANDS))
        .status(&[(2, 1, 1), (7, 13, 13)])
        .unless(&[Rejected]),
    Rule::new("disabled-code", Disabled, Recipient, "R").code(Of(&[525])).unless(&[Foreign]),
    Rule::new("host-takes-no-mail-or-not-now", Temporary, Host, "R")
        .code(Of(&[521, 556]))
        .status(&[(3, 2, 2)]),
    Rule::new("domain-code", DomainDead, Site, "R").code(Of(&[521, 556])).unless(&[Foreign]),
    Rule::new("rejected-address-status", NotFound, Recipient, "S")
        .code(Of(&[550, 551, 553, 554]))
        .status(&[(1, 0, 0), (1, 4, 4), (2, 0, 0)])
        .says(&[Rejected, Unavailable])
        .unless(&[UsNamed, ServerNamed, Foreign, DisabledBare]),
    Rule::new("retry-soon", Greylisted, Recipient, "W").code(Of(&[450, 451, 452])).says(&[RetrySoon]),
    Rule::new("policy-status", Policy, Us, "R").at(At::Any).status(&[(7, 0, ALL)]),
    Rule::new("unavailable", NotFound, Recipient, "S F R")
        .code(Of(&[550, 553, 554]))
        .says(&[Unavailable])
        .unless(&[Rejected, DisabledBare, NoSpace]),
    // Temporary refusals, by the codes and then by the text.
    Rule::new("greylisted-status", Greylisted, Recipient, "F")
        .code(Of(&[450, 451]))
        .status(&[(2, 0, 0)])
        .unless(&[NotNow, NoSpace]),
    Rule::new("throttled-mailbox-status", Throttled, Recipient, "F")
        .code(Transient)
        .status(&[(2, 1, 1)])
        .unless(&[NotNow, DisabledBare]),
    Rule::new("host-status", Temporary, Host, "R").at(At::Any).status(&[(3, 0, ALL), (4, 0, ALL)]),
    Rule::new("session-closing", Temporary, Session, "R").at(At::Any).code(Of(&[421])),
    Rule::new("for-now", Temporary, Host, "R").at(At::Any).code(Transient),
    Rule::new("not-now", Temporary, Host, "W").at(At::Any).code(Permanent).says(&[NotNow]),
    // Replies without a readable meaning.
    Rule::new("mail-refused", Policy, Sender, "R").at(At::Mail).code(Permanent),
    Rule::new("session-refused", Policy, Us, "R").at(At::Early).code(Permanent),
    Rule::new("bare-refusal", Unclear, Us, "R").at(At::Any).code(Permanent),
    Rule::new("no-meaning", Unclear, Session, "R").at(At::Any),
];

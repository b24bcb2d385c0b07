//! The parts that all pages share: the frame, and the headers that limit what a page can do in the browser.

use super::assets::{SCRIPT, STYLE};
use super::form::token_field;
use super::problem::Problem;
use super::session::SignedIn;
use api::{UnverifiableCause, WaitCause};
use http_core::Reply;
use list_work::actions::WaitingAddresses;
use lists::numbers::grouped;
use lists::words::sentence;
use maud::{DOCTYPE, Markup, html};
use std::borrow::Cow;
use store::clock;
use store::credits::calendar::Iso8601;

/// A time with a precision of one minute, and its zone.
pub fn time(at: u64) -> Markup {
    let text = minute(at);
    let (date, rest) = text.split_once(' ').unwrap_or((&text, ""));
    // In a narrow table, a line can end only between the two.
    html! { time datetime=(Iso8601(at).to_string()) { span.whole { (date) } " " span.whole { (rest) } } }
}

/// The text of a time, to the minute.
pub fn minute(at: u64) -> String {
    let exact = Iso8601(at).to_string();
    format!("{} UTC", exact.get(..16).unwrap_or(&exact).replace('T', " "))
}

/// A table with these heads, which a narrow display shows as a stack of rows. The head of a column of numbers begins with `#`.
pub fn table(label: &str, heads: &[&str], rows: Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.stack {
                thead { tr { @for head in heads {
                    @match head.strip_prefix('#') {
                        Some(head) => th.number scope="col" { (head) },
                        None => th scope="col" { (head) },
                    }
                } } }
                tbody { (rows) }
            }
        }
    }
}

/// The error of a form, shown above the form.
pub fn notice(wrong: Option<&str>) -> Markup {
    html! { @if let Some(wrong) = wrong { p.notice.bad role="alert" { (with_code(wrong)) } } }
}

/// A text in which backticks enclose names and commands, which a page shows as code. A backtick without another one stays.
pub fn with_code(text: &str) -> Markup {
    let mut rest = text;
    let mut parts = Vec::new();
    while let Some((before, after)) = rest.split_once('`')
        && let Some((code, after)) = after.split_once('`')
    {
        parts.push((before, code));
        rest = after;
    }
    html! { @for (before, code) in parts { (before) code { (code) } } (rest) }
}

/// Why an address without an answer was free, besides a cancellation: words for a batch and for a list that have ended.
pub const UNASKED: [&str; 2] = [
    "not answered in an outage of the service",
    "not asked because the budget of refused recipients was used up",
];

/// What the budget of refused recipients means, as the answer to a single check says it.
const OVER_BUDGET: &str =
    "The recipient's mail server refused many addresses recently, so it gets no more questions for now";

/// What comes of an address without an answer because of this. The advice is that beside an unverifiable address.
fn then_free(what: &str, cause: UnverifiableCause) -> String {
    format!(" If the reason is {what}, they cost nothing: {}.", cause.words().advice)
}

/// What addresses without a result wait for. `addresses` names them.
pub fn waiting(waiting: &[WaitingAddresses], addresses: &str) -> Markup {
    const UNTIL: &str = "Last try at the latest";
    let waits_for = |wanted| waiting.iter().any(|waiting| waiting.cause == wanted);
    html! {
        h3 { "What the others wait for" }
        table.stack {
            thead { tr { th scope="col" { "Cause" } th.number scope="col" { (addresses) } th scope="col" { (UNTIL) } } }
            tbody { @for WaitingAddresses { cause, addresses: count, until } in waiting { tr {
                td.wrap data-label="Cause" { (sentence(cause.words())) }
                td.number data-label=(addresses) { (grouped(*count)) }
                td data-label=(UNTIL) { @match until { Some(until) if *until <= clock::now() => "under way", Some(until) => (time(*until)), None => "" } }
            } } }
        }
        p.soft {
            @if waits_for(WaitCause::RefusalBudget) { (OVER_BUDGET) ". They are asked when it gets questions again. " }
            "You need not do anything: all these addresses are tried again by themselves. Those without an answer after their last try \
             are unverifiable."
            @if waits_for(WaitCause::RefusalBudget) { (then_free("the budget", UnverifiableCause::RefusalBudget)) }
            @if waits_for(WaitCause::Outage) { (then_free("the outage", UnverifiableCause::Outage)) }
        }
    }
}

/// The navigation of a signed-in user: groups, with paths and names of their pages.
const PLACES: [(&str, &[(&str, &str)]); 3] = [
    ("Checks", &[("/", "Overview"), ("/try", "Single check"), ("/lists", "Lists"), ("/batches", "Batches")]),
    (
        "API",
        &[
            ("/keys", "API keys"),
            ("/webhooks", "Webhooks"),
            ("/connections", "Connections"),
            ("/docs", "API reference"),
        ],
    ),
    ("Account", &[("/usage", "Usage"), ("/plan", "Plan"), ("/sessions", "Password and sessions")]),
];

/// Renders a whole page with status 200. `title` is the title of the window; the page does not show it.
pub fn page(title: &str, signed_in: Option<&SignedIn>, body: Markup) -> Reply {
    page_at(title, None, signed_in, body)
}

/// Renders the page of a refusal. Also returns the line for the log.
pub fn of_problem(problem: Problem, signed_in: Option<&SignedIn>) -> (Reply, Option<String>) {
    let Problem { status, message, headers, inside } = problem;
    let title = match status {
        403 => "Not allowed",
        404 => "Not found",
        429 => "Too many attempts",
        500.. => "Service error",
        _ => "Request refused",
    };
    let body = html! {
        h1 { (title) }
        p.notice.bad role="alert" { (message) }
        p { a href="/" { "Go to the start page" } }
    };
    let mut reply = with_status(page(title, signed_in, body), status);
    reply.headers.extend(headers);
    (reply, inside)
}

/// Renders a whole page. The navigation marks `place` as the current page.
pub fn page_at(title: &str, place: Option<&str>, signed_in: Option<&SignedIn>, body: Markup) -> Reply {
    let footer = html! { p { "mailprobe · " a href="/docs" { "API reference" } } };
    frame(title, header(place, signed_in), body, footer)
}

/// Renders a page without links, for a server without a dashboard.
pub fn bare(title: &str, body: Markup) -> Reply {
    frame(title, html! { header { span.brand { "mailprobe" } } }, body, html! { p { "mailprobe" } })
}

fn frame(title: &str, header: Markup, body: Markup, footer: Markup) -> Reply {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · mailprobe" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(STYLE.path());
                script src=(SCRIPT.path()) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                (header)
                main #main tabindex="-1" { (body) }
                footer { (footer) }
            }
        }
    };
    html_reply(whole)
}

fn header(place: Option<&str>, signed_in: Option<&SignedIn>) -> Markup {
    html! {
        header {
            a.brand href="/" { "mailprobe" }
            @match signed_in {
                Some(signed_in) => {
                    nav.places aria-label="Main" {
                        @for (group, places) in PLACES {
                            ul aria-label=(group) {
                                @for (path, name) in places {
                                    li { a href=(path) aria-current=[(place == Some(*path)).then_some("page")] { (name) } }
                                }
                            }
                        }
                    }
                    form.signout method="post" action="/signout" {
                        (token_field(&signed_in.csrf))
                        button.quiet type="submit" { "Sign out" }
                    }
                }
                None => {
                    nav aria-label="Main" { ul { li { a href="/signin" { "Sign in" } } } }
                }
            }
        }
    }
}

/// The Content-Security-Policy of a page. Forms can be sent to this server and to `form_target`. The target is needed for
/// redirects too, because browsers apply the policy to redirects after a form.
pub fn policy(form_target: Option<&str>) -> String {
    let target = form_target.map(|origin| format!(" {origin}")).unwrap_or_default();
    format!(
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'{target}; \
         frame-ancestors 'none'; base-uri 'none'; connect-src 'self'"
    )
}

/// Also allows the forms of a page to be sent, or redirected, to `origin`.
pub fn allow_form_target(mut reply: Reply, origin: &str) -> Reply {
    for (name, value) in &mut reply.headers {
        if *name == "content-security-policy" {
            *value = policy(Some(origin)).into();
        }
    }
    reply
}

/// The reply for a report, which has its own style in the page and no form or script. Its content comes later.
pub fn report_reply() -> Reply {
    Reply { status: 200, headers: Vec::new(), body: Vec::new() }
        .header(
            "content-security-policy",
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
        )
        .header("referrer-policy", "no-referrer")
        .header("x-frame-options", "DENY")
}

fn html_reply(markup: Markup) -> Reply {
    let headers: Vec<(&'static str, Cow<'static, str>)> = vec![
        ("content-type", "text/html; charset=utf-8".into()),
        ("content-security-policy", policy(None).into()),
        // Not `no-referrer`: with that value, browsers send forms with `Origin: null`.
        ("referrer-policy", "same-origin".into()),
        ("x-frame-options", "DENY".into()),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()".into()),
    ];
    Reply { status: 200, headers, body: markup.into_string().into_bytes() }
}

/// Sets the status of a page, for example of a page that shows an error of a form.
pub fn with_status(mut reply: Reply, status: u16) -> Reply {
    reply.status = status;
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_core::Refusal;
    use std::time::Duration;

    #[test]
    fn text_is_escaped_and_nothing_is_inline() {
        let reply = page("<script>alert(1)</script>", None, html! { p { ("<img src=x onerror=alert(1)>") } });
        let text = String::from_utf8(reply.body).unwrap();
        assert!(!text.contains("<script>alert") && !text.contains("<img"), "{text}");
        assert!(!text.contains("style=\""), "{text}");
        let policy = reply.headers.iter().find(|(name, _)| *name == "content-security-policy").unwrap();
        assert!(policy.1.contains("default-src 'none'") && !policy.1.contains("unsafe"));
    }

    #[test]
    fn backticks_become_code() {
        for (text, html) in [
            ("run `mailprobe doctor`, or `a<b`", "run <code>mailprobe doctor</code>, or <code>a&lt;b</code>"),
            ("one ` alone", "one ` alone"),
            ("`a` and `", "<code>a</code> and `"),
            ("plain", "plain"),
        ] {
            assert_eq!(with_code(text).into_string(), html);
        }
    }

    #[test]
    fn what_waits_for_a_budget_says_why_and_what_comes_next() {
        let wait = |cause| WaitingAddresses { cause, addresses: 2, until: Some(u64::MAX / 2) };
        let shown = |causes: &[WaitCause]| {
            let rows: Vec<_> = causes.iter().map(|cause| wait(*cause)).collect();
            waiting(&rows, "Addresses").into_string()
        };
        let refusal = Refusal::over_budget(Duration::ZERO, false).body.message;
        assert!(refusal.starts_with(OVER_BUDGET), "{refusal}");
        let budget = shown(&[WaitCause::RefusalBudget]);
        assert!(budget.contains("refused many addresses recently, so it gets no more questions"), "{budget}");
        assert!(budget.contains("they cost nothing: check again after an hour."), "{budget}");
        let others = shown(&[WaitCause::RetryLater, WaitCause::Queue]);
        assert!(others.contains("You need not do anything"), "{others}");
        assert!(!others.contains("questions") && !others.contains("cost nothing"), "{others}");
        assert!(shown(&[WaitCause::Outage]).contains("the outage, they cost nothing: check again later."));
    }

    #[test]
    fn a_form_target_widens_that_alone() {
        let reply = allow_form_target(page("t", None, html! {}), "https://client.example");
        let policy = reply.headers.iter().find(|(name, _)| *name == "content-security-policy").unwrap();
        assert!(policy.1.contains("form-action 'self' https://client.example;"));
    }
}

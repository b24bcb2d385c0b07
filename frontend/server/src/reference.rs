//! The API reference: a page that is made only from the OpenAPI description.
//!
//! The page has the same content as the description, so both stay up to date together. Each operation has examples for curl
//! that work when pasted into a shell with the key in a variable (`curl.rs`). `schema.rs` describes schemas in words, and
//! `prose.rs` converts the Markdown of the description to markup. The page needs no script.

mod curl;
mod prose;
mod schema;

use engine::proto::limits::SINGLE_PATIENCE;
use lists::numbers::duration_text;
use maud::{Markup, html};
use prose::{inline, prose};
use schema::{fields, kind, name_of};
use serde_json::{Map, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The tags of fields that a request must have, and of fields that an answer always has.
const REQUIRED: &str = "required";
const ALWAYS: &str = "always present";
/// The media type of most bodies.
const JSON: &str = "application/json";

/// One operation of the description.
struct Operation<'d> {
    method: String,
    path: &'d str,
    value: &'d Value,
}

/// The content of the page. `base` is the URL of the API. `batch_wait` is the longest wait of an address of a batch for a server that
/// answers "later".
pub fn render(document: &Value, base: &str, batch_wait: Duration) -> Markup {
    let whole = Whole { document, base: base.trim_end_matches('/'), batch_wait };
    html! {
        h1 { "API reference" }
        p.lead { (whole.text("/info/title")) " · version " (whole.text("/info/version")) }
        (whole.contents())
        p.to-contents { a.button href="#contents" { "Contents" } }
        (whole.introduction())
        @for tag in whole.list("/tags") { (whole.tag(tag)) }
        (whole.errors())
        (whole.headers())
        (whole.schemas())
    }
}

/// The URL of the API in examples: the public URL if it is configured, otherwise the address of the listener.
pub fn base(public_url: Option<&str>, tls: bool, address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let scheme = if tls { "https" } else { "http" };
    public_url.map_or_else(|| format!("{scheme}://{}", SocketAddr::new(ip, address.port())), str::to_owned)
}

/// The description, and the URL of the API.
struct Whole<'d> {
    document: &'d Value,
    base: &'d str,
    batch_wait: Duration,
}

impl<'d> Whole<'d> {
    fn text(&self, pointer: &str) -> &'d str {
        text(self.document, pointer)
    }

    fn list(&self, pointer: &str) -> impl Iterator<Item = &'d Value> {
        self.document.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
    }

    fn map(&self, pointer: &str) -> impl Iterator<Item = (&'d String, &'d Value)> {
        entries(self.document, pointer)
    }

    /// The target of a `$ref`, or the value itself.
    fn resolve(&self, value: &'d Value) -> &'d Value {
        let reference = value.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
        reference.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    fn operations(&self) -> Vec<Operation<'d>> {
        let mut operations = Vec::new();
        for (path, item) in self.map("/paths") {
            for (method, value) in item.as_object().into_iter().flatten() {
                operations.push(Operation { method: method.to_ascii_uppercase(), path, value });
            }
        }
        // The preferred form sends a body, so it comes before GET.
        operations.sort_by_key(|operation| (operation.path, operation.method == "GET"));
        operations
    }

    fn of_tag(&self, tag: &Value) -> Vec<Operation<'d>> {
        let of_tag = |operation: &Operation<'_>| {
            operation.value.pointer("/tags/0").is_some_and(|name| Some(name) == tag.get("name"))
        };
        self.operations().into_iter().filter(of_tag).collect()
    }

    fn contents(&self) -> Markup {
        html! {
            nav #contents aria-label="On this page" {
                ul {
                    li { a href="#start" { "Getting started" } }
                    @for tag in self.list("/tags") {
                        @for operation in self.of_tag(tag) {
                            li {
                                a href={ "#" (operation.id()) } { code { (operation.method) " " (operation.path) } }
                                " " (operation.text("/summary"))
                            }
                        }
                    }
                    li { a href="#errors" { "Errors" } }
                    li { a href="#headers" { "Headers" } }
                    li { a href="#schemas" { "Schemas" } }
                }
            }
        }
    }

    fn introduction(&self) -> Markup {
        html! {
            section #start aria-labelledby="start-title" {
                h2 #start-title { "Getting started" }
                (prose(self.text("/info/description")))
                p {
                    "The API is at " code { (self.base) } ". Its OpenAPI description, from which this page is made, is at "
                    a href="/v1/openapi.json" { code { "/v1/openapi.json" } } "."
                }
                (prose(self.text("/components/securitySchemes/bearer/description")))
                p { "Every request carries the key in a header. The examples read the key from a shell variable. Set the variable to your own key:" }
                (shell("setup", "Set the key", curl::SETUP))
            }
        }
    }

    fn tag(&self, tag: &Value) -> Markup {
        let name = text(tag, "/name");
        let id = format!("tag-{}", name.to_ascii_lowercase());
        html! {
            section aria-labelledby=(id) {
                h2 #(id) { (name) }
                (prose(text(tag, "/description")))
                @if name == "Verify" {
                    p {
                        "A full check takes some seconds, and at most " (duration_text(SINGLE_PATIENCE)) " if the mail server is slow or \
                         silent. Let clients wait a little longer than that."
                    }
                }
                @if name == "Batch" || name == "Lists" {
                    p {
                        "Some mail servers accept an unknown client only after several minutes. On this server, an address of a batch, or \
                         of a part of a list, waits at most " (duration_text(self.batch_wait)) " for them. Without an answer by then, its \
                         reason is " code { "unverifiable" } "."
                    }
                }
                @for operation in self.of_tag(tag) { (self.operation(&operation)) }
            }
        }
    }

    fn operation(&self, operation: &Operation<'d>) -> Markup {
        let id = operation.id();
        let title = format!("{id}-title");
        html! {
            article.card #(id) aria-labelledby=(title) {
                h3 #(title) { (operation.text("/summary")) }
                p { span.tag { (operation.method) } " " code { (operation.path) } }
                (prose(operation.text("/description")))
                (self.parameters(operation))
                (self.body(operation))
                h4 { "Examples" }
                @for example in curl::examples(self, operation) {
                    p.hint { (example.summary) }
                    (shell("curl", &example.summary, &example.text))
                }
                h4 { "Responses" }
                @for (status, response) in entries(operation.value, "/responses") {
                    (self.response(operation, status, response))
                }
            }
        }
    }

    fn parameters(&self, operation: &Operation<'d>) -> Markup {
        let parameters: Vec<&Value> = list(operation.value, "/parameters").collect();
        if parameters.is_empty() {
            return html! {};
        }
        let rows = html! {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Location" } th scope="col" { "Description" } } }
            tbody {
                @for parameter in parameters {
                    tr {
                        th scope="row" { code { (text(parameter, "/name")) } (required(parameter)) }
                        td { (text(parameter, "/in")) }
                        td {
                            @if let Some(schema) = parameter.get("schema") { p.hint { (kind(schema)) } }
                            (prose(text(parameter, "/description")))
                        }
                    }
                }
            }
        };
        html! { h4 { "Parameters" } (table(&format!("Parameters of {}", operation.id()), rows)) }
    }

    fn body(&self, operation: &Operation<'d>) -> Markup {
        html! {
            @for (media, content) in entries(operation.value, "/requestBody/content") {
                h4 { "Body" }
                @if let Some(schema) = content.get("schema").filter(|_| media == JSON) {
                    p { "JSON: " (kind(schema)) }
                    (fields(&format!("Fields of the body of {}", operation.id()), self.resolve(schema), REQUIRED))
                } @else {
                    p { "Content of any type, such as " code { (media) } }
                }
            }
        }
    }

    fn response(&self, operation: &Operation<'_>, status: &str, response: &'d Value) -> Markup {
        let response = self.resolve(response);
        let good = status.starts_with('2');
        html! {
            details open[good] {
                summary {
                    span.tag.good[good].warn[!good] { (status) } " " (inline(text(response, "/description")))
                }
                @for (media, content) in entries(response, "/content") {
                    @if let Some(schema) = content.get("schema").filter(|_| media == JSON) {
                        p { "JSON: " (kind(schema)) }
                    } @else {
                        p { code { (media) } }
                    }
                    @for (number, (name, example)) in entries(content, "/examples").enumerate() {
                        details open[number == 0] {
                            summary { (inline(text(example, "/summary"))) }
                            @let label = format!("{status} {name}, {} {media}", operation.id());
                            @match example.get("value").and_then(Value::as_str) {
                                Some(value) => (text_example(&label, value)),
                                None => (json(&label, example.get("value"))),
                            }
                        }
                    }
                }
                @let headers: Vec<&String> = entries(response, "/headers").map(|(name, _)| name).collect();
                @if !headers.is_empty() {
                    p.hint { "Headers: " @for name in headers { a href={ "#header-" (name) } { code { (name) } } " " } }
                }
            }
        }
    }

    fn errors(&self) -> Markup {
        html! {
            section #errors aria-labelledby="errors-title" {
                h2 #errors-title { "Errors" }
                (prose(self.text("/components/schemas/ErrorCode/description")))
                (fields("Fields of an error", &self.document["components"]["schemas"]["Error"], ALWAYS))
            }
        }
    }

    fn headers(&self) -> Markup {
        let rows = html! {
            thead { tr { th scope="col" { "Header" } th scope="col" { "Meaning" } th scope="col" { "Example" } } }
            tbody {
                @for (name, header) in self.map("/components/headers") {
                    tr #{ "header-" (name) } {
                        th scope="row" { code { (name) } }
                        td { (prose(text(header, "/description"))) }
                        td { code { (plain(header.get("example"))) } }
                    }
                }
            }
        };
        html! {
            section #headers aria-labelledby="headers-title" {
                h2 #headers-title { "Response headers" }
                (table("Response headers", rows))
            }
        }
    }

    fn schemas(&self) -> Markup {
        html! {
            section #schemas aria-labelledby="schemas-title" {
                h2 #schemas-title { "Schemas" }
                @for (name, schema) in self.map("/components/schemas") {
                    @let id = name_of(name);
                    article.card #(id) aria-labelledby={ (id) "-title" } {
                        h3 #{ (id) "-title" } { (name) }
                        (prose(text(schema, "/description")))
                        @if schema.get("properties").is_some() {
                            @let always = if name.ends_with("Request") { REQUIRED } else { ALWAYS };
                            (fields(&format!("Fields of {name}"), schema, always))
                        } @else {
                            p { (kind(schema)) }
                        }
                    }
                }
            }
        }
    }
}

impl<'d> Operation<'d> {
    fn text(&self, pointer: &str) -> &'d str {
        text(self.value, pointer)
    }

    /// The id of the operation on the page.
    fn id(&self) -> &'d str {
        self.text("/operationId")
    }
}

fn text<'d>(value: &'d Value, pointer: &str) -> &'d str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'d>(value: &'d Value, pointer: &str) -> impl Iterator<Item = &'d Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn entries<'d>(value: &'d Value, pointer: &str) -> impl Iterator<Item = (&'d String, &'d Value)> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// The text of a string; JSON for other values.
fn plain(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn required(value: &Value) -> Markup {
    html! { @if value.get("required") == Some(&Value::Bool(true)) { " " span.tag { (REQUIRED) } } }
}

/// A table that scrolls by itself, also by keyboard, because it can be wider than a phone.
fn table(label: &str, rows: Markup) -> Markup {
    html! { div.scroll role="region" tabindex="0" aria-label=(label) { table { (rows) } } }
}

fn json(label: &str, value: Option<&Value>) -> Markup {
    let text = value.and_then(|value| serde_json::to_string_pretty(value).ok()).unwrap_or_default();
    text_example(label, &text)
}

fn text_example(label: &str, text: &str) -> Markup {
    html! { pre role="region" tabindex="0" aria-label={ "Example: " (label) } { code { (text) } } }
}

/// A command to paste. `class` names its kind for programs.
fn shell(class: &str, label: &str, text: &str) -> Markup {
    html! { pre.(class) role="region" tabindex="0" aria-label={ "Shell command: " (label) } { code { (text) } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page() -> String {
        let document =
            serde_json::to_value(api::openapi::description("https://api.example.com").unwrap()).unwrap();
        render(&document, "https://api.example.com", Duration::from_secs(1200)).into_string()
    }

    #[test]
    fn everything_of_the_description_is_there() {
        let (document, page) =
            (serde_json::to_value(api::openapi::description("/").unwrap()).unwrap(), page());
        let whole = Whole { document: &document, base: "/", batch_wait: Duration::ZERO };
        assert_eq!(whole.operations().len(), 25);
        assert_eq!(page.matches("waits at most 20 minutes for them").count(), 2, "batches and lists");
        assert_eq!(page.matches("at most 45 seconds if the mail server is slow").count(), 1);
        for operation in whole.operations() {
            for part in [operation.id(), operation.path, operation.text("/summary")] {
                assert!(page.contains(part), "{part}");
            }
        }
        for (name, schema) in whole.map("/components/schemas") {
            assert!(page.contains(&format!("id=\"{}\"", name_of(name))), "{name}");
            for (field, _) in entries(schema, "/properties") {
                assert!(page.contains(&format!("<code>{field}</code>")), "{name}.{field}");
            }
        }
        for code in api::ErrorCode::ALL {
            assert!(page.contains(&format!("<code>{}</code>", code.as_str())), "{}", code.as_str());
        }
    }

    #[test]
    fn every_link_leads_somewhere() {
        let page = page();
        let mut links = 0;
        for link in page.split("href=\"#").skip(1) {
            let target = link.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{target}\"")), "#{target}");
            links += 1;
        }
        assert!(links > 50);
    }

    #[test]
    fn ids_are_there_once() {
        let page = page();
        let mut ids: Vec<&str> =
            page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    #[test]
    fn nothing_is_left_of_the_markdown_and_nothing_is_inline() {
        let page = page();
        // The content of examples comes from the API.
        let prose = page.split("<pre").map(|part| part.split("</pre>").last().unwrap());
        for part in prose {
            for left in ["`", "| ---", "<script", "style=", " onclick"] {
                assert!(!part.contains(left), "{left}: {part}");
            }
        }
    }

    #[test]
    fn examples_find_the_api() {
        let check = |public: Option<&str>, tls: bool, address: &str, expected: &str| {
            assert_eq!(base(public, tls, address.parse().unwrap()), expected);
        };
        check(Some("https://api.example.com"), false, "127.0.0.1:80", "https://api.example.com");
        check(None, false, "127.0.0.1:8080", "http://127.0.0.1:8080");
        check(None, true, "0.0.0.0:8443", "https://127.0.0.1:8443");
        check(None, false, "[::]:8080", "http://[::1]:8080");
    }

    #[test]
    fn text_is_escaped() {
        let document =
            json!({ "info": { "title": "<b>", "description": "`<i>` <u>\n\n| <s> |\n| --- |\n| <q> |" } });
        let page = render(&document, "https://<p>", Duration::ZERO).into_string();
        for tag in ["<b>", "<i>", "<u>", "<s>", "<q>", "https://<p>"] {
            assert!(!page.contains(tag), "{tag}");
        }
        assert!(page.contains("&lt;q&gt;"));
    }
}

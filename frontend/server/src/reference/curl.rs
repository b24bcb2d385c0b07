//! Examples for curl, made from the examples of the description. Each is complete and works when pasted.
//!
//! The examples expect the key in the variable of [`SETUP`]. If an operation needs an id, its example first calls the
//! operation that returns the id. The links of the description name that operation. If a link has `x-poll`, the example
//! waits until the object has another state.

use super::{Operation, Whole, entries, list, plain, text};
use serde_json::Value;
use std::fmt::Write;

/// The command to paste first.
pub const SETUP: &str = "export MAILPROBE_KEY='mp_test_...'";

const AUTHORIZATION: &str = "Authorization: Bearer $MAILPROBE_KEY";

/// A command to paste.
pub struct Example {
    /// A summary of the command.
    pub summary: String,
    /// The command.
    pub text: String,
}

/// All examples of an operation.
pub fn examples(whole: &Whole<'_>, operation: &Operation<'_>) -> Vec<Example> {
    let before = Preparation::of(whole, operation);
    let id = before.as_ref().map(|before| before.name);
    let bodies = bodies(operation);
    let mut examples = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        // An Idempotency-Key belongs to one body, so only the first example has it.
        let parameters = if number == 0 { Parameters::Headers } else { Parameters::Required };
        let text = command(whole, operation, id, parameters, Some(body));
        examples.push(Example { summary: body.summary.to_owned(), text });
    }
    if bodies.is_empty() {
        let summary = operation.text("/summary").to_owned();
        examples.push(Example { summary, text: command(whole, operation, id, Parameters::Required, None) });
        if list(operation.value, "/parameters").any(|it| text(it, "/name") == "mode") {
            let text = command(whole, operation, id, Parameters::With("mode"), None);
            examples.push(Example { summary: "With a mode".to_owned(), text });
        }
    }
    let Some(before) = before else { return examples };
    for Example { summary, text } in &mut examples {
        let which = if bodies.len() > 1 { format!(": {summary}") } else { String::new() };
        *summary = format!("{}, then {}{which}", before.summary, operation.text("/summary"));
        *text = format!("{}\n{text}", before.text);
    }
    examples
}

/// An example of a body.
struct ExampleBody<'d> {
    media: &'d str,
    summary: &'d str,
    value: Option<&'d Value>,
}

impl ExampleBody<'_> {
    fn is_json(&self) -> bool {
        self.media == super::JSON
    }

    /// The options of curl that send the body. The type keeps curl from stating that of a form.
    fn options(&self) -> String {
        let option = if self.is_json() { "--data" } else { "--data-binary" };
        let value = quoted(&plain(self.value));
        format!(" \\\n  --header 'Content-Type: {}' \\\n  {option} {value}", self.media)
    }
}

/// The examples of the bodies of an operation: the content before JSON, and then the shortest first.
fn bodies<'d>(operation: &Operation<'d>) -> Vec<ExampleBody<'d>> {
    let mut bodies = Vec::new();
    for (media, content) in entries(operation.value, "/requestBody/content") {
        for (_, example) in entries(content, "/examples") {
            bodies.push(ExampleBody {
                media,
                summary: text(example, "/summary"),
                value: example.get("value"),
            });
        }
    }
    bodies.sort_by_key(|body| (body.is_json(), plain(body.value).len()));
    bodies
}

/// The parameters that a command includes.
#[derive(Clone, Copy, PartialEq)]
enum Parameters<'p> {
    Required,
    /// Required parameters and all headers.
    Headers,
    /// Required parameters and this one.
    With(&'p str),
}

impl Parameters<'_> {
    fn has(self, parameter: &Value) -> bool {
        parameter.get("required") == Some(&Value::Bool(true))
            || match self {
                Parameters::Required => false,
                Parameters::Headers => text(parameter, "/in") == "header",
                Parameters::With(name) => text(parameter, "/name") == name,
            }
    }
}

/// A command for an operation. `id` names a path parameter, and the shell variable with its value.
fn command(
    whole: &Whole<'_>,
    operation: &Operation<'_>,
    id: Option<&str>,
    parameters: Parameters<'_>,
    body: Option<&ExampleBody<'_>>,
) -> String {
    let url = match id {
        Some(id) => {
            format!("\"{}{}\"", whole.base, operation.path.replace(&format!("{{{id}}}"), &format!("${id}")))
        }
        None => quoted(&format!("{}{}", whole.base, with_ids(operation))),
    };
    let implied = if body.is_some() { "POST" } else { "GET" };
    let method =
        if operation.method == implied { String::new() } else { format!("--request {} ", operation.method) };
    let mut command = format!("curl {method}{url}");
    if operation.value.get("security").is_none() {
        let _ = write!(command, " \\\n  --header \"{AUTHORIZATION}\"");
    }
    for parameter in list(operation.value, "/parameters").filter(|it| parameters.has(it)) {
        let example = entries(parameter, "/examples").next().and_then(|(_, example)| example.get("value"));
        let (name, value) = (text(parameter, "/name"), plain(example));
        match text(parameter, "/in") {
            "query" => {
                if !command.contains("--get") {
                    command = command.replacen("curl ", "curl --get ", 1);
                }
                let _ = write!(command, " \\\n  --data-urlencode {}", quoted(&format!("{name}={value}")));
            }
            "header" => {
                let _ = write!(command, " \\\n  --header {}", quoted(&format!("{name}: {value}")));
            }
            _ => {}
        }
    }
    command + &body.map(ExampleBody::options).unwrap_or_default()
}

/// The path with the examples of its parameters.
fn with_ids(operation: &Operation<'_>) -> String {
    let mut path = operation.path.to_owned();
    for parameter in list(operation.value, "/parameters").filter(|it| text(it, "/in") == "path") {
        let example = entries(parameter, "/examples").next().and_then(|(_, example)| example.get("value"));
        path = path.replace(&format!("{{{}}}", text(parameter, "/name")), &plain(example));
    }
    path
}

/// The commands that make an operation possible, and the shell variable that they set to an id.
struct Preparation<'d> {
    summary: String,
    text: String,
    name: &'d str,
}

impl<'d> Preparation<'d> {
    /// The operations before this one, as the links of the description name them.
    fn of(whole: &Whole<'d>, operation: &Operation<'_>) -> Option<Preparation<'d>> {
        let (origin, link) = link_to(whole, operation)?;
        let name = entries(link, "/parameters").next()?.0.rsplit('.').next()?;
        let made = bodies(&origin);
        // If this operation sends the content, the object is created without it.
        let sends_content = bodies(operation).iter().any(|body| !body.is_json());
        let body = made.iter().find(|body| body.is_json() || !sends_content);
        let before = Preparation::of(whole, &origin);
        let id = before.as_ref().map(|before| before.name);
        let call = command(whole, &origin, id, Parameters::Required, body);
        let (mut summary, mut text) = (origin.text("/summary").to_owned(), String::new());
        match before {
            Some(before) => {
                summary = format!("{}, then {summary}", before.summary);
                // Only the last answer is shown.
                let _ = write!(text, "{}\n{call} \\\n  --output /dev/null", before.text);
            }
            None => {
                let id = format!("sed -n 's/.*\"{name}\": *\"\\([^\"]*\\)\".*/\\1/p'");
                let _ = write!(text, "{name}=$({call} \\\n  | {id})");
            }
        }
        if let Some(wait) = wait(whole, link, name) {
            let _ = write!(text, "\n{wait}");
        }
        Some(Preparation { summary, text, name })
    }
}

/// The first link to this operation, with the operation that it comes from.
fn link_to<'d>(whole: &Whole<'d>, operation: &Operation<'_>) -> Option<(Operation<'d>, &'d Value)> {
    for origin in whole.operations() {
        for (_, response) in entries(origin.value, "/responses") {
            for (_, link) in entries(whole.resolve(response), "/links") {
                if text(link, "/operationId") == operation.id() {
                    return Some((origin, link));
                }
            }
        }
    }
    None
}

/// A loop that waits while the object has the state in `x-poll` of a link. It also ends at an error.
fn wait(whole: &Whole<'_>, link: &Value, name: &str) -> Option<String> {
    let poll = link.get("x-poll")?;
    let operation = whole.operations().into_iter().find(|it| it.id() == text(poll, "/operationId"))?;
    let state = quoted(&format!("\"{}\": *\"{}\"", text(poll, "/field"), text(poll, "/while")));
    let look = command(whole, &operation, Some(name), Parameters::Required, None);
    let look = look.replacen("curl ", "curl --silent ", 1);
    Some(format!("while {look} \\\n  | grep --quiet {state}; do sleep 1; done"))
}

/// A shell word in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of(id: &str) -> Vec<String> {
        let document = serde_json::to_value(api::openapi::description("/").unwrap()).unwrap();
        let whole =
            Whole { document: &document, base: "https://api.example.com", batch_wait: Duration::ZERO };
        let operation = whole.operations().into_iter().find(|it| it.id() == id).unwrap();
        examples(&whole, &operation).into_iter().map(|example| example.text).collect()
    }

    #[test]
    fn commands_are_whole() {
        let key = "\\\n  --header \"Authorization: Bearer $MAILPROBE_KEY\"";
        assert_eq!(of("describe"), ["curl 'https://api.example.com/v1/openapi.json'"]);
        assert_eq!(of("showAccount"), [format!("curl 'https://api.example.com/v1/account' {key}")]);
        let by_query = format!(
            "curl --get 'https://api.example.com/v1/verify' {key} \\\n  --data-urlencode 'email=alice@example.com'"
        );
        assert_eq!(
            of("verifyByQuery"),
            [by_query.clone(), format!("{by_query} \\\n  --data-urlencode 'mode=fast'")]
        );
        let verify = of("verify");
        assert_eq!(verify.len(), 3);
        assert!(verify.iter().any(|text| text.ends_with(
            "--header 'Content-Type: application/json' \\\n  --data '{\"email\":\"alice@example.com\"}'"
        )));
        let batch = of("createBatch");
        assert_eq!(batch.iter().filter(|text| text.contains("Idempotency-Key: ")).count(), 1);
        let poll = of("pollBatch");
        assert!(poll[0].starts_with("batch_id=$(curl 'https://api.example.com/v1/verify/batch'"), "{poll:?}");
        assert!(poll[0].contains("curl \"https://api.example.com/v1/verify/batch/$batch_id\" "), "{poll:?}");
        let cancel = &of("cancelBatch")[0];
        assert!(
            cancel.contains(
                "\ncurl --request POST \"https://api.example.com/v1/verify/batch/$batch_id/cancel\" "
            )
        );
        assert!(of("deleteWebhook")[0].starts_with("webhook_id=$(curl "));
        let change = of("changeWebhook");
        assert_eq!(change.len(), 2);
        assert!(change[0].contains("\ncurl --request PATCH \"https://"), "{change:?}");
        assert!(change[0].ends_with("--data '{\"enabled\":false}'"), "{change:?}");
        let list = of("createList");
        assert_eq!(list.len(), 3);
        assert!(list[0].contains("--data-binary 'email\nalice@example.com\n"), "{}", list[0]);
        let append = &of("appendToList")[0];
        assert!(append.starts_with("list_id=$(curl ") && append.contains("--data '{\"bytes\":"), "{append}");
        assert!(append.contains("\ncurl --request PATCH \"https://"), "{append}");
        assert!(
            append.contains("--header 'Upload-Offset: 0' \\\n  --header 'Upload-Complete: ?1'"),
            "{append}"
        );
    }

    #[test]
    fn a_command_waits_until_it_is_possible() {
        let create = "list_id=$(curl 'https://api.example.com/v1/lists' \\\n  \
            --header \"Authorization: Bearer $MAILPROBE_KEY\" \\\n  --header 'Content-Type: text/csv' \\\n  --data-binary 'email\n";
        for id in ["showList", "startList", "cancelList", "deleteList", "listResults"] {
            let text = &of(id)[0];
            assert!(text.starts_with(create), "{text}");
        }
        let wait = |state: &str| {
            format!(
                "\nwhile curl --silent \"https://api.example.com/v1/lists/$list_id\" \\\n  \
                 --header \"Authorization: Bearer $MAILPROBE_KEY\" \\\n  \
                 | grep --quiet '\"status\": *\"{state}\"'; do sleep 1; done\ncurl "
            )
        };
        let start = &of("startList")[0];
        assert!(
            start.contains(&format!(
                "{}--request POST \"https://api.example.com/v1/lists/$list_id/start\" ",
                wait("reading")
            )),
            "{start}"
        );
        let results = &of("listResults")[0];
        assert!(results.starts_with(start.as_str()), "{results}");
        assert!(results.contains(" --output /dev/null\nwhile "), "{results}");
        assert!(
            results.contains(&format!(
                "{}\"https://api.example.com/v1/lists/$list_id/results\" ",
                wait("running")
            )),
            "{results}"
        );
        assert!(!of("cancelList")[0].contains("while"));
    }

    #[test]
    fn a_quote_ends_nothing() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}

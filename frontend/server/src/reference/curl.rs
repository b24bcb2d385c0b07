//! Examples for curl, made from the examples of the description. Each is complete and works when pasted.
//!
//! The examples expect the key in the variable of [`SETUP`]. If an operation needs an id, its example first calls the
//! operation that returns the id. The links of the description name that operation.

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
    if let Some((parameter, origin)) = behind(whole, operation) {
        return vec![polled(whole, operation, &parameter, &origin)];
    }
    let summary = operation.text("/summary").to_owned();
    let mut bodies: Vec<(&String, &Value)> =
        entries(operation.value, "/requestBody/content/application~1json/examples").collect();
    // The simplest first.
    bodies.sort_by_key(|(_, example)| example.get("value").map(|value| value.to_string().len()));
    if bodies.is_empty() {
        let mut examples =
            vec![Example { summary, text: command(whole, operation, None, Parameters::Required) }];
        if list(operation.value, "/parameters").any(|it| text(it, "/name") == "mode") {
            let text = command(whole, operation, None, Parameters::With("mode"));
            examples.push(Example { summary: "With a mode".to_owned(), text });
        }
        return examples;
    }
    let of_body = |(number, (_, example)): (usize, &(&String, &Value))| {
        // An Idempotency-Key belongs to one body, so only the first example has it.
        let parameters = if number == 0 { Parameters::Headers } else { Parameters::Required };
        let text = command(whole, operation, example.get("value"), parameters);
        Example { summary: super::text(example, "/summary").to_owned(), text }
    };
    let content = content_of(operation).map(|content| Example {
        summary: text(content, "/summary").to_owned(),
        text: with_content(command(whole, operation, None, Parameters::Required), content),
    });
    content.into_iter().chain(bodies.iter().enumerate().map(of_body)).collect()
}

/// The example of a body that is not JSON.
fn content_of<'d>(operation: &Operation<'d>) -> Option<&'d Value> {
    let media = entries(operation.value, "/requestBody/content").find(|(media, _)| *media != super::JSON)?;
    entries(media.1, "/examples").next().map(|(_, example)| example)
}

/// A command that sends content. The type keeps curl from stating that of a form.
fn with_content(mut command: String, content: &Value) -> String {
    let _ = write!(command, " \\\n  --header 'Content-Type: text/csv'");
    let _ = write!(command, " \\\n  --data-binary {}", quoted(&plain(content.get("value"))));
    command
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

fn command(
    whole: &Whole<'_>,
    operation: &Operation<'_>,
    body: Option<&Value>,
    parameters: Parameters<'_>,
) -> String {
    let url = quoted(&format!("{}{}", whole.base, with_ids(operation)));
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
    if let Some(body) = body {
        let _ = write!(command, " \\\n  --header 'Content-Type: application/json'");
        let _ = write!(command, " \\\n  --data {}", quoted(&body.to_string()));
    }
    command
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

/// The operation whose answer contains a path parameter of this operation, and the name of the parameter.
fn behind<'d>(whole: &Whole<'d>, operation: &Operation<'_>) -> Option<(String, Operation<'d>)> {
    for origin in whole.operations() {
        for (_, response) in entries(origin.value, "/responses") {
            for (_, link) in entries(whole.resolve(response), "/links") {
                if text(link, "/operationId") == operation.id() {
                    let (name, _) = entries(link, "/parameters").next()?;
                    return Some((name.clone(), origin));
                }
            }
        }
    }
    None
}

/// An example that calls both operations in sequence.
fn polled(whole: &Whole<'_>, operation: &Operation<'_>, parameter: &str, origin: &Operation<'_>) -> Example {
    let body = entries(origin.value, "/requestBody/content/application~1json/examples").last();
    let first =
        command(whole, origin, body.and_then(|(_, example)| example.get("value")), Parameters::Required);
    let name = parameter.rsplit('.').next().unwrap_or(parameter);
    let path = operation.path.replace(&format!("{{{name}}}"), &format!("${name}"));
    let mut text = format!(
        "{name}=$({first} \\\n  | sed -n 's/.*\"{name}\": *\"\\([^\"]*\\)\".*/\\1/p')\n\
         curl \"{}{path}\" \\\n  --header \"{AUTHORIZATION}\"",
        whole.base
    );
    if operation.method != "GET" {
        let _ = write!(text, " \\\n  --request {}", operation.method);
    }
    for parameter in list(operation.value, "/parameters").filter(|it| super::text(it, "/in") == "header") {
        let example = entries(parameter, "/examples").next().and_then(|(_, example)| example.get("value"));
        let header = format!("{}: {}", super::text(parameter, "/name"), plain(example));
        let _ = write!(text, " \\\n  --header {}", quoted(&header));
    }
    if let Some(content) = content_of(operation) {
        text = with_content(text, content);
    }
    Example { summary: format!("{}, then {}", origin.text("/summary"), operation.text("/summary")), text }
}

/// A shell word in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str) -> Vec<String> {
        let document = serde_json::to_value(api::openapi::description("/").unwrap()).unwrap();
        let whole = Whole { document: &document, base: "https://api.example.com" };
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
        let id = "whk_01kdvds2j0emq8k9w39qsaekf4";
        assert_eq!(
            of("rotateWebhookSecret"),
            [format!("curl --request POST 'https://api.example.com/v1/webhooks/{id}/rotate' {key}")]
        );
        assert_eq!(
            of("deleteWebhook"),
            [format!("curl --request DELETE 'https://api.example.com/v1/webhooks/{id}' {key}")]
        );
        let change = of("changeWebhook");
        assert!(change[0].starts_with("curl --request PATCH 'https://"), "{change:?}");
        assert!(change[0].ends_with("--data '{\"enabled\":false}'"), "{change:?}");
        let poll = of("pollBatch");
        assert!(poll[0].starts_with("batch_id=$(curl 'https://api.example.com/v1/verify/batch'"), "{poll:?}");
        assert!(poll[0].contains("curl \"https://api.example.com/v1/verify/batch/$batch_id\" "), "{poll:?}");
        let cancel = &of("cancelBatch")[0];
        assert!(cancel.contains("/$batch_id/cancel\" ") && cancel.ends_with("--request POST"), "{cancel}");
        let list = of("createList");
        assert_eq!(list.len(), 3);
        assert!(list[0].contains("--data-binary 'email\nalice@example.com\n"), "{}", list[0]);
        let append = &of("appendToList")[0];
        assert!(append.starts_with("list_id=$(curl ") && append.contains("--data '{\"bytes\":"), "{append}");
        assert!(append.contains("--request PATCH \\\n  --header 'Upload-Offset: 0'"), "{append}");
    }

    #[test]
    fn a_quote_ends_nothing() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}

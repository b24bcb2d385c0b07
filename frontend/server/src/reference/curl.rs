//! Examples for curl, out of the description's own: each is whole, and works when pasted.
//!
//! They assume the key in the variable of [`SETUP`]. An operation that wants an id is shown behind the one that gives it,
//! as the description's links have it.

use super::{Operation, Whole, entries, list, plain, text};
use serde_json::Value;
use std::fmt::Write;

/// What is pasted first.
pub const SETUP: &str = "export MAILPROBE_KEY='mp_test_...'";

const AUTHORIZATION: &str = "Authorization: Bearer $MAILPROBE_KEY";

/// Something to paste.
pub struct Example {
    /// What it shows.
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
        // An Idempotency-Key is for one body: the first example has it.
        let parameters = if number == 0 { Parameters::Headers } else { Parameters::Required };
        let text = command(whole, operation, example.get("value"), parameters);
        Example { summary: super::text(example, "/summary").to_owned(), text }
    };
    bodies.iter().enumerate().map(of_body).collect()
}

/// Which parameters a command has.
#[derive(Clone, Copy, PartialEq)]
enum Parameters<'p> {
    Required,
    /// Those that are required, and all headers.
    Headers,
    /// Those that are required, and this one.
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
    let url = quoted(&format!("{}{}", whole.base, operation.path));
    let mut command = format!("curl {url}");
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

/// The operation whose answer has what another wants in its path, and which parameter that is.
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

/// Both, one behind the other.
fn polled(whole: &Whole<'_>, operation: &Operation<'_>, parameter: &str, origin: &Operation<'_>) -> Example {
    let body = entries(origin.value, "/requestBody/content/application~1json/examples").last();
    let first =
        command(whole, origin, body.and_then(|(_, example)| example.get("value")), Parameters::Required);
    let name = parameter.rsplit('.').next().unwrap_or(parameter);
    let path = operation.path.replace(&format!("{{{name}}}"), &format!("${name}"));
    let text = format!(
        "{name}=$({first} \\\n  | sed -n 's/.*\"{name}\": *\"\\([^\"]*\\)\".*/\\1/p')\n\
         curl \"{}{path}\" \\\n  --header \"{AUTHORIZATION}\"",
        whole.base
    );
    Example { summary: format!("{}, then {}", origin.text("/summary"), operation.text("/summary")), text }
}

/// A word of the shell, in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str) -> Vec<String> {
        let document = serde_json::to_value(api::openapi::document("/")).unwrap();
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
        let poll = of("pollBatch");
        assert!(poll[0].starts_with("batch_id=$(curl 'https://api.example.com/v1/verify/batch'"), "{poll:?}");
        assert!(poll[0].contains("curl \"https://api.example.com/v1/verify/batch/$batch_id\" "), "{poll:?}");
    }

    #[test]
    fn a_quote_ends_nothing() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}

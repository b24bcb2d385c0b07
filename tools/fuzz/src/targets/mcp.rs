//! Messages of assistants: there is an answer for any input, and it belongs to the message.
//!
//! An input is a byte for the present headers, their values on a line each, and the body.

use crate::grammar::Grammar;
use crate::input::one;
use assistants::mcp::message::{Age, Answer, Headers, LEGACY, MODERN, Message, read};
use assistants::mcp::tools;
use fastrand::Rng;
use serde_json::{Map, Value};
use std::sync::LazyLock;

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| {
    Grammar::of(concat!(include_str!("../../grammars/mcp.txt"), include_str!("../../grammars/values.txt")))
});
const EMAIL_CHARS_MAX: usize = 320;

pub fn grow(random: &mut Rng) -> Vec<u8> {
    let method =
        one(random, &["tools/call", "tools/call", "tools/list", "initialize", "server/discover", "ping"]);
    if random.u8(..6) == 0 {
        return [&[random.u8(..)], GRAMMAR.grow("json", random).as_bytes()].concat();
    }
    let modern = random.bool();
    let version = one(random, if modern { &[MODERN] } else { &LEGACY });
    let name = one(random, &["verify_email", "account", "x"]);
    let meta = match modern {
        true => format!(
            "\"_meta\":{{\"io.modelcontextprotocol/protocolVersion\":\"{version}\",\
             \"io.modelcontextprotocol/clientCapabilities\":{{}}}},"
        ),
        false => String::new(),
    };
    let id = one(random, &["1", "\"a\"", "-7", "1.5", "null"]);
    let mode = one(random, &["fast", "full", "x"]);
    let header = if random.bool() { name } else { "=?base64?dmVyaWZ5X2VtYWls?=" };
    let text = format!(
        "{version}\n{method}\n{header}\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{meta}\
         \"name\":\"{name}\",\"arguments\":{{\"email\":\"a@b.example\",\"mode\":\"{mode}\"}}}}}}"
    );
    [&[7], text.as_bytes()].concat()
}

pub fn feed(input: &[u8]) -> Result<(), String> {
    let Some((&given, mut rest)) = input.split_first() else { return Ok(()) };
    let mut header = |bit: u8| {
        if given & bit == 0 {
            return None;
        }
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        let (line, behind) = rest.split_at(end);
        rest = &behind[1..];
        std::str::from_utf8(line).ok()
    };
    let headers = Headers { version: header(1), method: header(2), name: header(4) };
    match read(rest, headers) {
        Err(answer) => {
            if answer.status != 400 {
                return Err(format!("status {} for what cannot be read", answer.status));
            }
            error_holds(&answer, None)
        }
        Ok(Message::Notification) => Ok(()),
        Ok(Message::Request(request)) => {
            if !(request.id.is_string() || request.id.is_i64() || request.id.is_u64()) {
                return Err("an id that is neither a string nor an integer".into());
            }
            if request.age == Age::Modern && headers.version != Some(MODERN) {
                return Err("the header names another revision than the rules".into());
            }
            let answer = request.result(Value::Object(Map::new()));
            let body = answer.body.ok_or("a result without a body")?;
            if body.get("id") != Some(&request.id) || body.get("result").is_none() {
                return Err("the result is not about the request".into());
            }
            error_holds(&request.unknown_method(), Some(&request.id))?;
            error_holds(&request.invalid_params("x"), Some(&request.id))?;
            error_holds(&request.internal_error(), Some(&request.id))?;
            arguments_hold(request.params.get("arguments").and_then(Value::as_object))
        }
    }
}

/// Checks an error of JSON-RPC: a code, a text, and the id if it is known.
fn error_holds(answer: &Answer, id: Option<&Value>) -> Result<(), String> {
    let body = answer.body.as_ref().ok_or("an error without a body")?;
    let error = body.get("error").ok_or("an error that is none")?;
    let told = error.get("code").is_some_and(Value::is_i64)
        && error.get("message").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !told || body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err("an error without a code or without words".into());
    }
    if id.is_some() && body.get("id") != id {
        return Err("the error is about another request".into());
    }
    Ok(())
}

fn arguments_hold(arguments: Option<&Map<String, Value>>) -> Result<(), String> {
    let Some(arguments) = arguments else { return Ok(()) };
    if tools::read_account(arguments).is_ok() != arguments.is_empty() {
        return Err("arguments are taken where there are to be none".into());
    }
    let Ok(call) = tools::read_verify(arguments) else { return Ok(()) };
    if arguments.get("email").and_then(Value::as_str) != Some(&call.email) || arguments.len() != 2 {
        return Err("arguments are read otherwise than they are".into());
    }
    if call.email.chars().count() > EMAIL_CHARS_MAX {
        return Err("an address beyond its limit".into());
    }
    Ok(())
}

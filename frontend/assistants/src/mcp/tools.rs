//! The tools: their names, arguments and results.
//!
//! Descriptions are for the model that chooses a tool. They include the cost of a call.

use api::Reason;
use serde_json::{Map, Value, json};

/// The tool that checks an address.
pub const VERIFY: &str = "verify_email";
/// The tool that shows credits and full checks left.
pub const ACCOUNT: &str = "account";

/// Longest address that is read, in characters, as in the API.
const EMAIL_CHARS_MAX: usize = 320;

/// The arguments of [`VERIFY`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyCall {
    /// The address, not parsed.
    pub email: String,
    /// Whether the check is full: it asks a mail server and costs a credit and an attempt.
    pub full: bool,
}

/// Every tool, always in this order.
pub fn definitions() -> Value {
    json!([verify_definition(), account_definition()])
}

/// Reads the arguments of [`VERIFY`].
///
/// # Errors
/// A sentence for the model.
pub fn read_verify(arguments: &Map<String, Value>) -> Result<VerifyCall, &'static str> {
    if arguments.keys().any(|name| name != "email" && name != "mode") {
        return Err("verify_email takes only the arguments email and mode.");
    }
    let email = arguments.get("email").and_then(Value::as_str).ok_or("email must be a string.")?;
    if email.chars().count() > EMAIL_CHARS_MAX {
        return Err("email has more than 320 characters: no address is that long.");
    }
    let full = match arguments.get("mode").and_then(Value::as_str) {
        Some("fast") => false,
        Some("full") => true,
        _ => return Err("mode must be \"fast\" (free) or \"full\" (uses a full check of this connection)."),
    };
    Ok(VerifyCall { email: email.to_owned(), full })
}

/// Reads the arguments of [`ACCOUNT`].
///
/// # Errors
/// A sentence for the model.
pub fn read_account(arguments: &Map<String, Value>) -> Result<(), &'static str> {
    if arguments.is_empty() { Ok(()) } else { Err("account takes no arguments.") }
}

fn verify_definition() -> Value {
    json!({
        "name": VERIFY,
        "title": "Verify an e-mail address",
        "description": "Checks whether mail to one address would be delivered, and gives the reason. Mode \"fast\" is \
            free: it checks the syntax, typing mistakes in the domain, the domain's mail servers (DNS) and whether the \
            domain is disposable. It can prove that an address is bad, but never that the mailbox exists. Mode \"full\" \
            asks the recipient's mail server. It uses one of this connection's few full checks and one credit of the \
            account. Prefer fast. Use full if the user wants to know whether the mailbox exists.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "email": { "type": "string", "maxLength": EMAIL_CHARS_MAX, "description": "The address." },
                "mode": { "type": "string", "enum": ["fast", "full"], "description": "fast is free; full uses one full check." },
            },
            "required": ["email", "mode"],
            "additionalProperties": false,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "email": { "type": "string" },
                "deliverable": { "type": ["boolean", "null"], "description": "True only for confirmed mailboxes; null if a fast check found no problem." },
                "reason": { "type": "string", "enum": Reason::ALL.map(Reason::as_str) },
                "credits_remaining": { "type": ["integer", "null"], "description": "Credits of the account after the check; null if nothing was charged." },
                "cached": { "type": "boolean", "description": "True if the answer is free because the account checked the address in the last 24 hours." },
                "mode": { "type": "string" },
                "suggestion": { "type": ["string", "null"], "description": "The address without the typing mistake in its domain." },
                "checks": { "type": ["object", "null"] },
                "full_checks_left": { "type": "integer", "description": "Full checks that this connection can still make." },
            },
            "required": ["email", "deliverable", "reason", "full_checks_left"],
        },
        "annotations": { "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true },
    })
}

fn account_definition() -> Value {
    json!({
        "name": ACCOUNT,
        "title": "Account and connection",
        "description": "Shows the account's plan and credits, how many full checks this connection can still make, \
            and when the connection ends. Free.",
        "inputSchema": { "type": "object", "additionalProperties": false },
        "outputSchema": {
            "type": "object",
            "properties": {
                "plan": { "type": "string" },
                "plan_name": { "type": "string" },
                "status": { "type": "string" },
                "credits_remaining": { "type": "integer" },
                "credits_total": { "type": "integer" },
                "pack_credits": { "type": "integer" },
                "period_end": { "type": ["string", "null"] },
                "cancel_at_period_end": { "type": "boolean" },
                "connection": {
                    "type": "object",
                    "properties": {
                        "full_checks_allowed": { "type": "integer" },
                        "full_checks_left": { "type": "integer" },
                        "expires_at": { "type": "string" },
                    },
                    "required": ["full_checks_allowed", "full_checks_left", "expires_at"],
                },
            },
            "required": ["plan", "status", "credits_remaining", "connection"],
        },
        "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: Value) -> Result<VerifyCall, &'static str> {
        read_verify(arguments.as_object().unwrap())
    }

    #[test]
    fn arguments_are_read_strictly() {
        let good = read(json!({ "email": "a@b.example", "mode": "full" }));
        assert_eq!(good, Ok(VerifyCall { email: "a@b.example".into(), full: true }));
        assert!(!read(json!({ "email": "", "mode": "fast" })).unwrap().full);
        for bad in [
            json!({}),
            json!({ "email": "a@b.example" }),
            json!({ "email": 1, "mode": "fast" }),
            json!({ "email": "a", "mode": "FAST" }),
            json!({ "email": "a", "mode": null }),
            json!({ "email": "a", "mode": "fast", "x": 1 }),
            json!({ "email": "é".repeat(321), "mode": "fast" }),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
        assert!(read_account(&Map::new()).is_ok());
    }

    #[test]
    fn names_and_schemas_are_such_as_clients_take() {
        for tool in definitions().as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
            for schema in ["inputSchema", "outputSchema"] {
                assert_eq!(tool[schema]["type"], "object");
                let properties = tool[schema]["properties"].as_object();
                for required in tool[schema]["required"].as_array().into_iter().flatten() {
                    assert!(
                        properties.unwrap().contains_key(required.as_str().unwrap()),
                        "{name}: {required}"
                    );
                }
            }
            assert!(!tool["description"].as_str().unwrap().contains("  "), "{tool}");
        }
    }
}

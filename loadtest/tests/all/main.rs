//! All tests of the command, as one program: each program links everything again.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

mod command;
mod https;
mod planted;
mod signals;

/// Runs a command of the load test with a key and the words of a line; returns its output and its JSON.
fn loadtest(folder: &Path, command: &[&str], words: &str) -> (Output, Value) {
    let (key, json) = (folder.join("key"), folder.join("report.json"));
    std::fs::write(&key, "live: mp_test_key\n").expect("a key");
    let output = Command::new(env!("CARGO_BIN_EXE_mailprobe-loadtest"))
        .args(command)
        .arg("--key-file")
        .arg(key)
        .arg("--json")
        .arg(&json)
        .args(words.split(' '))
        .output()
        .expect("the command runs");
    let report = std::fs::read(json).map_or(Value::Null, |text| serde_json::from_slice(&text).expect("JSON"));
    (output, report)
}

//! The program itself. That it has a test makes `cargo test` build it, with what everything else is built with; `.ci/run`
//! counts on it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap()
}

#[test]
fn tasks_are_listed_and_others_refused() {
    let help = xtask(&["--help"]);
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    for task in ["bare", "browser", "confined", "docs", "interop", "schemathesis", "sim", "soak"] {
        assert!(help.contains(&format!("\n  {task} ")), "{help}");
    }
    assert_eq!(xtask(&["nothing"]).status.code(), Some(2));
}

//! A resolver that denies everything ends a list, which can be resumed with another resolver.

use super::{Desk, count};
use std::time::{Duration, Instant};

#[test]
fn a_lying_resolver_ends_the_list_and_nothing_is_said_of_its_rows() {
    let lying = Desk::with("[dns]\nlie = \"blocked\"\n");
    // Disposable addresses are always answered without DNS: they do not show that the outage is over.
    let row = |n: u64| match n % 4 {
        0 => format!("user-{n}@mailinator.com"),
        _ => format!("user-{n}@ok.example"),
    };
    let list = lying.list("list", (0..3200).map(row));
    let began = Instant::now();
    let flags = ["--state", "none"];
    let ended = lying.clean(&list, &flags).wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(began.elapsed() < Duration::from_secs(30), "it need not wait for its end: {:?}", began.elapsed());
    let why = format!(
        "no address can be checked: the resolver {} denies every name without proof, ",
        lying.net.dns()
    );
    assert!(said.contains(&why) && said.contains("continue with --resume"), "{said}");
    assert!(!list.with_extension("out").exists());
    let partial = std::fs::read_to_string(lying.path("list.out.partial")).unwrap();
    assert_eq!(count(&partial, ",false,disposable"), partial.lines().count(), "{partial}");

    let honest = Desk::new();
    let mut resumed = honest.mailprobe("clean");
    resumed
        .arg(&list)
        .arg("-o")
        .arg(list.with_extension("out"))
        .args(flags)
        .args(["--resume", "--no-progress"]);
    let resumed = resumed.output().unwrap();
    let said = String::from_utf8(resumed.stderr).unwrap();
    assert!(resumed.status.success(), "{said}");
    let output = std::fs::read_to_string(list.with_extension("out")).unwrap();
    assert_eq!(
        (count(&output, ",true,mailbox_exists"), count(&output, ",false,disposable")),
        (2400, 800),
        "{said}"
    );
}

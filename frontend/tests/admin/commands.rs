//! The effects and the output of the commands, which are the same on a stopped store and on a running server.

use crate::admin::Site;
use crate::harness::server::{mailprobe, real_command};
use checks::auth::ApiKey;
use serde_json::{Value, json as value};
use server::admin::ACCOUNTS_PER_PAGE;
use server::admin::server::AdminServer;
use store::{AccountId, NewAccount};

fn both(check: impl Fn(&Site)) {
    check(&Site::stopped());
    check(&Site::running());
}

fn json(site: &Site, line: &[&str]) -> Value {
    let line: Vec<_> = line.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&site.run(&line).unwrap()).unwrap()
}

#[test]
fn accounts_are_made_shown_and_changed() {
    both(|site| {
        let made = json(site, &["account", "create", "acme", "--plan", "growth"]);
        assert_eq!((&made["plan"], &made["status"]), (&"growth".into(), &"active".into()));
        let id = made["id"].as_str().unwrap();
        assert!(id.starts_with("acc_") && id.len() == 30);
        assert_eq!(json(site, &["account", "set-plan", "acme", "starter"])["balance"]["plan_left"], 5_000);
        assert_eq!(
            json(site, &["account", "grant", id, "2,500", "--note", "sorry"])["balance"]["pack_left"],
            2500
        );
        assert_eq!(json(site, &["account", "set-status", id, "past_due"])["status"], "past_due");
        let shown = json(site, &["account", "show", id]);
        assert_eq!(shown["account"]["balance"]["pack_left"], 2500);
        assert!(shown["entries"].as_array().unwrap().iter().any(|entry| entry["note"] == "sorry"));
        assert_eq!(shown["audit"]["faults"], Value::Array(vec![]));
        assert_eq!(json(site, &["account", "list"])[0]["id"], id);
    });
}

#[test]
fn an_end_with_the_period_is_announced_and_taken_back() {
    both(|site| {
        site.run(&["account", "create", "acme"]).unwrap();
        let announced = json(site, &["account", "set-status", "acme", "canceled", "--at-period-end"]);
        assert_eq!(
            (&announced["status"], &announced["cancel_at_period_end"]),
            (&"active".into(), &true.into())
        );
        assert!(site.run(&["account", "list"]).unwrap().contains("active, canceled at period end"));
        let back = json(site, &["account", "set-status", "acme", "active"]);
        assert_eq!(back["cancel_at_period_end"], false);
        let refused = site.run(&["account", "set-status", "acme", "paused", "--at-period-end"]);
        assert_eq!(refused.unwrap_err(), "only the status canceled can take effect at the end of the period");
    });
}

#[test]
fn limits_are_set_shown_and_taken_back() {
    both(|site| {
        site.run(&["account", "create", "acme"]).unwrap();
        let set =
            json(site, &["account", "set-limits", "acme", "--batch", "2", "--fair-use-per-second", "9"]);
        assert_eq!((&set["limits"]["batch"], &set["limits"]["fast"]), (&2.into(), &600.into()));
        assert_eq!(set["limits"]["fast_account"], 6000, "ten times that of a key, in JSON too");
        assert_eq!((&set["overrides"]["batch"], &set["overrides"]["fast"]), (&2.into(), &Value::Null));
        let set = json(site, &["account", "set-limits", "acme", "--account", "1000000000"]);
        assert_eq!((&set["limits"]["account"], &set["limits"]["batch"]), (&1_000_000_000.into(), &2.into()));
        let shown = json(site, &["account", "show", "acme"]);
        assert_eq!((&shown["limits"], &shown["overrides"]), (&set["limits"], &set["overrides"]));
        let shown = site.run(&["account", "show", "acme"]).unwrap();
        assert!(shown.contains("batch                2           the account's own\n"), "{shown}");
        assert!(shown.contains("poll                 600         the plan's\n"), "{shown}");
        let set = json(site, &["account", "set-limits", "acme", "--reset", "--poll", "7"]);
        assert_eq!((&set["limits"]["batch"], &set["limits"]["poll"]), (&30.into(), &7.into()));
        let list = site.run(&["account", "set-limits", "acme", "--reset"]).unwrap();
        assert!(!list.contains("own") && list.contains("fair-use-burst"), "{list}");
        for line in [
            &["account", "set-limits", "acme"][..],
            &["account", "set-limits", "acme", "--fast", "0"],
            &["account", "set-limits", "acme", "--fast", "1000000001"],
            &["account", "set-limits", "nobody", "--fast", "1"],
        ] {
            assert!(site.run(line).is_err(), "{line:?}");
        }
    });
}

#[test]
fn people_get_tables() {
    both(|site| {
        let made = site.run(&["account", "create", "acme"]).unwrap();
        assert!(made.contains("credits left   100\n  of the plan  100 of 100\n"), "{made}");
        assert!(made.contains("period end     2027-02-28T09:00:00+00:00\n"), "{made}");
        let list = site.run(&["account", "list"]).unwrap();
        let lines: Vec<_> = list.lines().collect();
        assert_eq!(lines[0].split_whitespace().next(), Some("NAME"));
        assert!(lines[1].starts_with("acme  acc_") && lines[1].contains("  free  active  100  "), "{list}");
        let granted = site.run(&["account", "grant", "acme", "7", "--note", "a gift"]).unwrap();
        assert!(granted.starts_with("7 credits added; acme now has 107.\n\nname "), "{granted}");
        let moved = site.run(&["account", "set-plan", "acme", "free"]).unwrap();
        assert!(moved.starts_with("acme has the plan free now, and 107 credits.\n\nname "), "{moved}");
        let paused = site.run(&["account", "set-status", "acme", "paused"]).unwrap();
        let resume = "active` makes it active again.\n\n";
        assert!(paused.starts_with("acme is paused now. `mailprobe account set-status acc_"), "{paused}");
        assert!(paused.contains(&format!("{resume}name ")), "{paused}");
        let shown = site.run(&["account", "show", "acme"]).unwrap();
        assert!(shown.contains("pack    1        7                        a gift\n"), "{shown}");
        assert!(shown.contains(&format!("{resume}Limits")), "{shown}");
        assert!(shown.ends_with("2 entries and 0 reservations add up.\n"), "{shown}");
    });
}

#[test]
fn a_key_is_printed_once_and_revoked_at_once() {
    both(|site| {
        site.run(&["account", "create", "acme"]).unwrap();
        let printed = site.run(&["key", "create", "acme", "--label", "ci"]).unwrap();
        let live = ApiKey::parse(printed.trim_end().as_bytes()).unwrap();
        assert!(live.reveal().starts_with("mp_live_"));
        let made = json(site, &["key", "create", "acme", "--test"]);
        assert!(made["key"].as_str().unwrap().starts_with("mp_test_"));
        let keys = json(site, &["key", "list", "acme"]);
        let find = |keys: &Value, mode: &str| -> Value {
            keys.as_array().unwrap().iter().find(|key| key["mode"] == mode).unwrap().clone()
        };
        assert_eq!(find(&keys, "test")["id"], made["id"]);
        let listed = find(&keys, "live");
        assert_eq!(listed["label"], "ci");
        assert_eq!(listed["last4"], live.reveal()[live.reveal().len() - 4..]);
        let list = site.run(&["key", "list", "acme"]).unwrap();
        assert!(!list.contains(&live.reveal()[8..20]), "the key itself is listed");

        let id = listed["id"].as_str().unwrap();
        assert_eq!(json(site, &["key", "revoke", id])["revoked_at"], crate::admin::NOW);
        let keys = json(site, &["key", "list", "acme"]);
        assert_eq!(find(&keys, "live")["revoked_at"], crate::admin::NOW);
        assert_eq!(find(&keys, "test")["revoked_at"], Value::Null);
    });
}

#[test]
fn a_key_is_limited_to_scopes_and_a_time() {
    both(|site| {
        site.run(&["account", "create", "acme"]).unwrap();
        let made = json(site, &["key", "create", "acme", "--scope", "lists,fast", "--expires", "90d"]);
        assert_eq!(made["scopes"], value!(["fast", "lists"]));
        assert_eq!(made["expires_at"], crate::admin::NOW + 90 * 86_400_000);
        let all = json(site, &["key", "create", "acme"]);
        assert_eq!((all["scopes"].as_array().unwrap().len(), &all["expires_at"]), (5, &Value::Null));
        let list = site.run(&["key", "list", "acme"]).unwrap();
        assert!(list.starts_with("ID") && list.contains("EXPIRES") && list.contains("SCOPES"), "{list}");
        assert!(list.contains("fast,lists") && list.contains("all"), "{list}");
        let past = site.run(&["key", "create", "acme", "--expires", "1999-12-31"]).unwrap_err();
        assert!(past.contains("a key expires in the future"), "{past}");
    });
}

#[test]
fn an_account_is_deleted_with_its_name_and_keys() {
    both(|site| {
        site.run(&["account", "create", "acme"]).unwrap();
        site.run(&["account", "create", "other"]).unwrap();
        let made = json(site, &["key", "create", "acme"]);
        let unconfirmed = site.run(&["account", "delete", "acme"]).unwrap_err();
        for part in
            ["nothing was deleted", "credits, results", "account export acme", "the same command with --yes"]
        {
            assert!(unconfirmed.contains(part), "{unconfirmed}");
        }
        let deleted = json(site, &["account", "delete", "acme", "--yes"]);
        assert_eq!(deleted["complete"], true);
        assert_eq!(deleted["account"], made["account"]);
        let again = site.run(&["account", "delete", "acme", "--yes"]).unwrap_err();
        assert!(again.contains("no account has the id or the name"), "{again}");
        let id = made["account"].as_str().unwrap();
        assert!(site.run(&["account", "delete", id, "--yes"]).is_err(), "a wrong id is not a deleted one");
        assert!(site.run(&["key", "list", "acme"]).is_err());
        site.run(&["account", "create", "acme"]).unwrap();
        assert_eq!(json(site, &["key", "list", "acme"]), value!([]));
        site.run(&["account", "show", "other"]).unwrap();
    });
}

#[test]
fn refusals_say_why() {
    both(|site| {
        site.run(&["account", "create", "acme"]).unwrap();
        for (line, why) in [
            (&["account", "create", "acme"][..], "another account has this name"),
            (&["account", "create", "b", "--plan", "gold"], "the configuration defines no such plan"),
            (&["account", "set-plan", "acme", "gold"], "the configuration defines no such plan"),
            (&["account", "show", "nobody"], "no account has the id or the name \"nobody\""),
            (&["account", "grant", "acme", "0"], "a grant has 1 to 1,099,511,627,776 credits"),
            (&["key", "create", "nobody"], "no account has the id or the name \"nobody\""),
            (&["key", "list", "acc_00000000000000000000000000"], "no account has the id or the name"),
            (&["key", "revoke", "key_00000000000000000000000000"], "no such key"),
        ] {
            let refused = site.run(line).unwrap_err();
            assert!(refused.contains(why), "{line:?}: {refused}");
        }
        for line in [
            &["account", "set-status", "acme", "gone"][..],
            &["key", "revoke", "acme"],
            &["account", "grant", "acme", "-1"],
        ] {
            assert!(site.run(line).unwrap_err().contains("error: "), "{line:?}");
        }
    });
}

#[test]
fn lists_of_many_pages_come_whole() {
    let site = Site::stopped();
    let store = crate::admin::open(site.path());
    let accounts = ACCOUNTS_PER_PAGE as u128 * 2;
    let made = (0..accounts).map(|n| {
        let (id, name) = (AccountId::new(crate::admin::NOW, n), format!("n{n}"));
        store.create_account(NewAccount { id, name, plan: "free".into() }, crate::admin::NOW)
    });
    made.collect::<Vec<_>>().into_iter().for_each(|made| drop(made.wait().unwrap()));
    let server = AdminServer::start(site.path(), store, || crate::admin::NOW, None).unwrap();
    let list = site.run(&["account", "list"]).unwrap();
    assert_eq!(list.lines().count() as u128, accounts + 1);
    drop(server);
    assert_eq!(site.run(&["account", "list"]).unwrap(), list);
}

#[test]
fn no_store_is_made_by_looking() {
    let site = Site::stopped();
    let missing = site.path().join("missing");
    for line in [&["account", "list"][..], &["key", "list", "a"], &["account", "show", "a"]] {
        let refused = crate::admin::run(&missing, line).unwrap_err();
        assert!(refused.contains("there is no mailprobe data in"), "{refused}");
    }
    assert!(!missing.exists());
}

#[test]
fn a_new_data_folder_and_the_next_step_are_told() {
    let site = Site::stopped();
    let data = site.path().join("typo");
    let data = data.to_str().unwrap();
    for (name, is_new) in [("acme", true), ("other", false)] {
        let output = mailprobe(["account", "create", name, "--json", "--data", data]);
        let (json, said): (Value, _) =
            (serde_json::from_slice(&output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let created = format!(
            "created a new data folder at {data}; a server uses the folder that its own --data names"
        );
        assert_eq!(said.contains(&created), is_new, "{said}");
        let next = format!("`mailprobe key create {} --data {data}`", json["id"].as_str().unwrap());
        assert!(said.contains(&next), "{said}");
    }
}

#[test]
fn the_default_data_folder_is_not_made_by_a_command() {
    let site = Site::stopped();
    let missing = site.path().join("missing");
    let line = ["account", "create", "acme"];
    let refused = crate::admin::run_at(&missing, false, &line).unwrap_err();
    assert!(refused.contains("there is no mailprobe data in") && refused.contains("--data"), "{refused}");
    assert!(!missing.exists());
    // A package has made the folder, and no server has started on it yet.
    std::fs::create_dir(&missing).unwrap();
    assert!(crate::admin::run_at(&missing, false, &line).is_ok());
}

#[test]
fn a_reader_that_closes_the_output_ends_a_command_without_a_message() {
    let folder = Site::stopped();
    let data = folder.path().to_str().unwrap();
    let lines = [
        vec!["openapi"],
        vec!["account", "create", "acme", "--data", data],
        vec!["account", "list", "--json", "--data", data],
    ];
    for line in lines {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = real_command().args(&line).stdout(writer).output().unwrap();
        let complaints = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(141) && !complaints.contains("pipe"), "{line:?}: {complaints}");
    }
    assert!(folder.run(&["account", "list"]).unwrap().contains("acme"), "the account was created");
}

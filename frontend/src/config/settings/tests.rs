use super::*;

#[test]
fn keys_are_unique_and_every_default_is_shown_or_absent() {
    let config = Config::default();
    for (i, setting) in SETTINGS.iter().enumerate() {
        assert!(SETTINGS[..i].iter().all(|other| other.key != setting.key), "{}", setting.key);
        let absent = [
            "tls_cert",
            "tls_key",
            "public_url",
            "store_url",
            "store_url_file",
            "store_egress",
            "metrics",
            "spamtraps",
            "lists_allowed",
            "lists_disposable",
            "lists_role",
            "lists_free",
            "lists_typo_targets",
            "ehlo",
            "mail_from",
            "source",
            "proxy",
            "state",
            "learned",
            "batch_rows_max",
        ]
        .contains(&setting.key);
        assert_eq!((setting.show)(&config).is_none(), absent, "{}", setting.key);
    }
}

#[test]
fn texts_are_a_line_and_sentences() {
    for setting in SETTINGS.iter() {
        let Setting { key, help, details, .. } = setting;
        assert!(help.chars().count() <= 90 && !help.ends_with('.'), "{key}: {help}");
        assert!(details.is_empty() || details.ends_with('.'), "{key}: {details}");
    }
}

#[test]
fn values_that_could_hurt_are_refused() {
    for (key, value) in [
        ("listen", "example.com:80"),
        ("frontends", "-1"),
        ("connections", "0"),
        ("smtp_port", "0"),
        ("ehlo", "a b"),
        ("ehlo", "a\r\nMAIL"),
        ("public_url", "api.example.com"),
        ("public_url", "https:///v1"),
        ("public_url", "https://api.example.com/?a=b"),
        ("public_url", "https://user@api.example.com"),
        ("mail_from", "a>\r\n@b"),
        ("mail_from", "nobody"),
        ("mail_from", "é@example.com"),
        ("allow_net", "10.0.0.0/33"),
        ("resolver", "dns.example:53"),
        ("reuse_verdicts", "yes"),
        ("pace", "Polite"),
        ("data", ""),
        ("store_url", "http://a/b"),
        ("store_url_file", ""),
        ("store_schema", "a; DROP"),
        ("store_egress", ""),
        ("state", ""),
        ("learned", ""),
        ("learned_accounts", ""),
        ("batch_rows_max", "0"),
        ("batch_wait", "86401"),
        ("batch_outage_wait", "25h"),
        ("batch_outage_wait", "an hour"),
    ] {
        let setting = find(key).unwrap();
        assert!((setting.set)(&mut Config::default(), &[value.to_owned()]).is_err(), "{key} {value}");
    }
}

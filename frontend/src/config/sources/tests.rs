use super::*;
use crate::config::Given;

fn load(
    file: &str,
    environment: &[(&str, &str)],
    flags: &[(&'static str, &[&str])],
) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mailprobe.toml");
    std::fs::write(&path, file).unwrap();
    let variable = |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    let flags: Given = flags
        .iter()
        .map(|(key, values)| (*key, values.iter().map(|value| (*value).to_owned()).collect()))
        .collect();
    Config::load(Some(&path), variable, &flags)
}

/// The sources as text: way, EHLO name, reverse-path.
fn told(config: &Config) -> Vec<String> {
    let tell = |source: &Source| {
        let SourceConfig { way, ehlo, mail_from } = &source.source;
        let way = match way {
            SourceWay::Address(address) => address.to_string(),
            SourceWay::Proxy(proxy) => format!("{proxy}{}", if proxy.ipv6 { " (and IPv6)" } else { "" }),
        };
        let parts = [Some(way), ehlo.clone(), mail_from.clone()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    config.sources.iter().map(tell).collect()
}

const FILE: &str = "[[source]]\naddress = \"192.0.2.1\"\nehlo = \"a.example\"\nmail_from = \"b@a.example\"\n\
                    [[source]]\nproxy = \"socks5://user:secret@p.example:1080\"\nipv6 = true\nehlo = \"p.example\"\n";

#[test]
fn sources_come_from_the_file_the_environment_and_flags() {
    let config = load(FILE, &[], &[]).unwrap();
    let proxy = "socks5://user@p.example:1080 (and IPv6) p.example";
    assert_eq!(told(&config), ["192.0.2.1 a.example b@a.example", proxy]);
    // Flags replace sources of the same kind.
    let config = load(FILE, &[], &[("source", &["192.0.2.2=c.example", "2001:db8::1"])]).unwrap();
    assert_eq!(told(&config), [proxy, "192.0.2.2 c.example", "2001:db8::1"]);
    let config = load(FILE, &[("MAILPROBE_PROXY", "socks5://a:1=x.example, socks5://b:2")], &[]).unwrap();
    assert_eq!(told(&config), ["192.0.2.1 a.example b@a.example", "socks5://a:1 x.example", "socks5://b:2"]);
    let config = load("source = [\"192.0.2.3\"]\nproxy = \"socks5://a:1\"", &[], &[]).unwrap();
    assert_eq!(told(&config), ["192.0.2.3", "socks5://a:1"]);
    let engine = config.engine_config().unwrap();
    assert_eq!(engine.sources.len(), 2);
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_without_passwords() {
    let check = |file: &str, flags: &[(&'static str, &[&str])], expected: &str| {
        let said = load(file, &[], flags).unwrap_err().0;
        assert!(said.contains(expected) && !said.contains("secret"), "{file}: {said}");
    };
    let table = |lines: &str| format!("[[source]]\n{lines}");
    check("source = 1.5", &[], ":1: source: must be");
    check(&table("ehlo = \"a.example\""), &[], ":1: source: `address` or `proxy` is missing");
    check(&table("adress = \"192.0.2.1\""), &[], ":2: unknown key `adress`; did you mean `address`?");
    check(&table("address = \"a.example\""), &[], ":2: source: address: `a.example` is not an IP address");
    check(
        &table("address = \"192.0.2.1\"\nproxy = \"socks5://u:secret@a:1\""),
        &[],
        "either an address or a proxy",
    );
    check(&table("address = \"192.0.2.1\"\nipv6 = true"), &[], "are only for proxies");
    check(
        &table("address = \"192.0.2.1\"\nehlo = \"a b\""),
        &[],
        ":3: source: ehlo: `a b` is not a host name",
    );
    check(
        &table("address = \"192.0.2.1\"\nmail_from = \"a\""),
        &[],
        ":3: source: mail_from: `a` is not an address",
    );
    check(
        &table("proxy = \"http://u:secret@a:1\""),
        &[],
        ":2: source: proxy: it is not a proxy: write socks5://",
    );
    check(&table("proxy = \"socks5://u:secret@a:1\"\npassword_file = \"f\""), &[], "no password in `proxy`");
    check(&table("proxy = \"socks5://a:1\"\npassword_file = \"f\""), &[], "needs a user name");
    check(&table("proxy = \"socks5://a:1\"\nipv6 = 1"), &[], ":3: source: ipv6: must be true or false");
    check("", &[("source", &["a.example"])], "--source: `a.example` is not an IP address");
    check("", &[("source", &["192.0.2.1=a b"])], "--source: `a b` is not a host name");
    check("", &[("proxy", &["socks5://u:secret@a"])], "--proxy: the proxy has no port");
}

#[test]
fn the_configuration_is_printed_without_passwords() {
    let printed = load(FILE, &[], &[]).unwrap().to_toml();
    assert!(!printed.contains("secret") && printed.contains("# its password is not shown"), "{printed}");
    let again = load(&printed, &[], &[]).unwrap();
    assert_eq!(told(&again), told(&load(FILE, &[], &[]).unwrap()));
    assert!(!format!("{:?}", load(FILE, &[], &[]).unwrap()).contains("secret"));
}

#[test]
fn passwords_are_read_from_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    let file = format!(
        "[[source]]\nproxy = \"socks5://user@p.example:1080\"\npassword_file = \"{}\"\n",
        path.display()
    );
    let config = load(&file, &[], &[]).unwrap();
    assert!(config.engine_config().unwrap_err().0.contains("cannot read the password in"));
    std::fs::write(&path, "the secret\n").unwrap();
    let engine = config.engine_config().unwrap();
    let SourceWay::Proxy(proxy) = &engine.sources[0].way else { panic!("no proxy") };
    assert_eq!(proxy.password.as_deref(), Some("the secret"));
    assert!(!config.to_toml().contains("secret"));
    std::fs::write(&path, vec![b'x'; 2000]).unwrap();
    assert!(config.engine_config().unwrap_err().0.contains("larger than"));
}

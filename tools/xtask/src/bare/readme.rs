//! What README.md promises, read from its text: a change of README changes what is tested.

use crate::docs::blocks::examples;
use std::net::SocketAddr;

/// The commands and the packages that README names.
#[derive(Debug, PartialEq, Eq)]
pub struct Promises {
    /// The packages of Debian that the build needs.
    pub packages: Vec<String>,
    /// The first command: it builds and starts the server.
    pub serve: String,
    /// The second command: it runs the tests.
    pub test: String,
    /// The command that installs the program.
    pub install: String,
    /// The address of the server in the example of a check.
    pub server: SocketAddr,
    /// The path and query of this check.
    pub path: String,
    /// Its answer.
    pub answer: String,
}

impl Promises {
    /// Reads the text of README.md.
    ///
    /// # Errors
    ///
    /// The first promise that is missing.
    pub fn read(text: &str) -> Result<Promises, String> {
        let examples = examples(text, true)?;
        let opening = examples.opening.ok_or("it does not begin with a block of commands")?.text;
        let mut commands = opening.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        let mut next = |first: &str| -> Result<String, String> {
            let command = commands.next().filter(|command| command.starts_with(first));
            command.map(str::to_owned).ok_or_else(|| format!("its first block has no `{first}`"))
        };
        let (serve, test) = (next("cargo run ")?, next("cargo test ")?);
        let packages = quoted(text, "`apt-get install ")?.split(' ').map(str::to_owned).collect();
        let install = format!("cargo install {}", quoted(text, "`cargo install ")?);
        let check = examples.commands.iter().find(|block| block.text.contains("/v1/verify?email="));
        let check = check.ok_or("it has no example of a check")?;
        let answer = check.output.clone().ok_or("the example of a check has no answer")?;
        let url = check.text.split('\'').find_map(|part| part.strip_prefix("http://"));
        let (server, path) =
            url.and_then(|url| url.split_once('/')).ok_or("the check has no URL in quotes")?;
        let server = server.parse().map_err(|_| format!("the check asks {server}, which is no address"))?;
        Ok(Promises { packages, serve, test, install, server, path: format!("/{path}"), answer })
    }
}

/// The text after `start`, up to the end of the quotation.
fn quoted<'a>(text: &'a str, start: &str) -> Result<&'a str, String> {
    let found = text.split_once(start).and_then(|(_, rest)| rest.split_once('`'));
    found.map(|(quotation, _)| quotation).ok_or_else(|| format!("it names no command {start}...`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_has_all_promises() {
        let read = Promises::read(include_str!("../../../../README.md")).unwrap();
        for package in ["gcc", "libc6-dev", "git"] {
            assert!(read.packages.iter().any(|one| one == package), "{:?}", read.packages);
        }
        assert!(read.serve.ends_with("serve --data data"), "{}", read.serve);
        assert!(read.install.contains("--locked"), "{}", read.install);
        assert_eq!(read.path, "/v1/verify?email=catch_all@example.com");
        assert!(read.answer.contains("\"reason\":\"catch_all\""), "{}", read.answer);
    }

    #[test]
    fn a_missing_promise_is_named() {
        for (text, why) in [
            ("# x\n\ntext\n", "begin with a block"),
            ("# x\n\n```\nmake\n```\n", "has no `cargo run `"),
            ("# x\n\n```\ncargo run -q # y\ncargo test -q\n```\n", "apt-get install"),
        ] {
            let said = Promises::read(text).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}

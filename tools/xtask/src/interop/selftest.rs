//! The check that the servers answer as the cases expect, made from the probe's namespace with independent tools.

use super::cases::{ExpectedWitness, KnownAddress};
use super::net::{Net, NetNamespace};
use super::report::Tally;
use crate::failure::Failure;
use std::time::Duration;

/// Postfix and Exim offer STARTTLS.
const TLS: &[&str] = &["--tls"];
const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// Checks the witness of every case with swaks or dig.
pub fn run(net: &Net, cases: &[&KnownAddress]) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for case in cases {
        tally.check(case.name, look(net, case.address, &case.witness)?);
    }
    Ok(tally)
}

/// The observation of a witness; the error is a different observation.
pub fn look(net: &Net, address: &str, witness: &ExpectedWitness) -> Result<Result<String, String>, Failure> {
    let (seen, expected) = match *witness {
        ExpectedWitness::Rcpt(server, expected) => (rcpt_reply(net, server, address, TLS)?, expected),
        ExpectedWitness::ClearRcpt(server, expected) => (rcpt_reply(net, server, address, &[])?, expected),
        ExpectedWitness::Banner(server, expected) => (banner(net, server)?, expected),
        ExpectedWitness::Dns(status, words) => {
            let (seen_status, records) = mx(net, address)?;
            let fits = seen_status == status && records.contains(words);
            let seen = format!("{seen_status} {records}");
            return Ok(if fits { Ok(seen) } else { Err(format!("{seen}, not {status} {words}")) });
        }
    };
    let fits = seen.starts_with(expected);
    Ok(if fits { Ok(seen) } else { Err(format!("{seen}, not {expected}")) })
}

/// The reply to RCPT.
fn rcpt_reply(net: &Net, server: &str, address: &str, tls: &[&str]) -> Result<String, Failure> {
    let transcript = swaks(net, server, address, tls)?;
    Ok(reply_after(&transcript, "RCPT TO:").unwrap_or_else(|| format!("no reply to RCPT in:\n{transcript}")))
}

/// The reply to the connection.
fn banner(net: &Net, server: &str) -> Result<String, Failure> {
    let transcript = swaks(net, server, "postmaster@probe.example", &[])?;
    Ok(reply_after(&transcript, "=== Connected").unwrap_or_else(|| format!("no banner in:\n{transcript}")))
}

fn swaks(net: &Net, server: &str, address: &str, tls: &[&str]) -> Result<String, Failure> {
    let mut command = net.command(NetNamespace::Probe, "swaks");
    command.args(["--server", server, "--port", "25", "--to", address, "--quit-after", "RCPT"]);
    command.args(["--ehlo", "probe.example", "--from", "postmaster@probe.example"]).args(tls);
    // swaks has a separate exit status for every refusal, but the transcript has more details.
    net.run(command, "", TOOL_LIMIT).map(|finished| finished.stdout)
}

/// The last line of the reply that follows the line with `command`: `<-  250 Ok`, `<** 550 no`, under TLS `<~  `.
fn reply_after(transcript: &str, command: &str) -> Option<String> {
    let mut lines = transcript.lines().skip_while(|line| !line.contains(command)).skip(1);
    lines.find_map(|line| {
        let reply = line.strip_prefix('<')?.get(3..)?;
        let last = reply.len() < 4 || reply.as_bytes().get(3) != Some(&b'-');
        last.then(|| reply.to_owned())
    })
}

/// The status and the answer of an MX question.
fn mx(net: &Net, address: &str) -> Result<(String, String), Failure> {
    let domain = address.rsplit('@').next().unwrap_or_default();
    let domain = if domain.is_ascii() { domain } else { "xn--bcher-kva.example" };
    let mut command = net.command(NetNamespace::Probe, "dig");
    command.args([&format!("@{}", super::net::RESOLVER), "+noall", "+comments", "+answer", domain, "MX"]);
    let answer = net.run(command, "", TOOL_LIMIT)?.success("dig")?;
    let status = answer.split("status: ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
    let records: Vec<String> = answer
        .lines()
        .filter(|line| !line.starts_with(';') && !line.is_empty())
        .map(|line| line.split_whitespace().skip(4).collect::<Vec<_>>().join(" "))
        .collect();
    Ok((status.to_owned(), records.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::reply_after;

    #[test]
    fn the_last_line_of_a_reply_counts() {
        let transcript = "=== Connected to x.\n<-  220 hello\n -> RCPT TO:<a@b>\n<** 550-5.1.1 no\n<** 550 5.1.1 such\n -> QUIT\n<-  221 bye\n";
        assert_eq!(reply_after(transcript, "RCPT TO:").as_deref(), Some("550 5.1.1 such"));
        assert_eq!(reply_after(transcript, "=== Connected").as_deref(), Some("220 hello"));
        assert_eq!(
            reply_after(" ~> RCPT TO:<a@b>\n<~  250 2.1.5 Ok\n", "RCPT TO:").as_deref(),
            Some("250 2.1.5 Ok")
        );
        assert_eq!(reply_after(transcript, "DATA"), None);
    }
}

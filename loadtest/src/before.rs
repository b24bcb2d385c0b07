//! The checks before a run: a wrong key, port, process or folder would make all figures of the run worthless.

use crate::ask::ask;
use crate::http;
use crate::peer::Peer;
use crate::sampler::Watched;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

/// The socket in the data folder of a running server.
const ADMIN_SOCKET: &str = "admin.sock";
/// How many keys of a file are tried until the server accepts one.
const KEYS_TRIED: usize = 10;

/// Checks that the server answers HTTP and accepts a key. `keys_from` names the origin of the keys.
///
/// # Errors
///
/// One line: there is no HTTP, or the server refuses all tried keys.
pub fn server_answers(server: &Peer, host: &str, keys: &[String], keys_from: &str) -> Result<(), String> {
    let mut refusal = None;
    for key in keys.iter().take(KEYS_TRIED) {
        let mut request = String::new();
        http::get(&mut request, host, "/v1/account", key);
        let reply = ask(server, &request).map_err(|error| no_http(server, &error))?;
        if reply.status != 401 {
            return Ok(());
        }
        let why = http::text_field(&reply.body, "message").or(http::text_field(&reply.body, "detail"));
        refusal = Some(why.map_or(String::new(), |why| format!(": {why}")));
    }
    match refusal {
        None => Ok(()),
        Some(why) => Err(format!("{} refuses the key of {keys_from} (401{why})", server.name)),
    }
}

fn no_http(server: &Peer, error: &io::Error) -> String {
    let name = &server.name;
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("{name} gives no answer to the first request ({error})")
        }
        _ if server.is_https() => format!("{name} does not answer HTTP over TLS ({error})"),
        _ => format!(
            "{name} does not answer HTTP ({error}); if it serves HTTPS, write --server https://{name}"
        ),
    }
}

/// Checks that a running server uses this data folder. Nothing is created.
///
/// # Errors
///
/// One line: no server runs on the folder.
pub fn data_is_served(data: &Path, server: &str) -> Result<(), String> {
    match UnixStream::connect(data.join(ADMIN_SOCKET)) {
        // The command of mailprobe names the lack of a permission.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(format!(
            "--data {}: no server runs on this folder, so {server} uses another one",
            data.display()
        )),
        _ => Ok(()),
    }
}

/// Checks that the sources of the samples exist.
///
/// # Errors
///
/// One line that names the option with the mistake.
pub fn costs_are_known(pid: Option<u32>, metrics: Option<SocketAddr>) -> Result<(), String> {
    let look = |watched: Watched| watched.look(Instant::now());
    if let Some(pid) = pid
        && look(Watched { pid: Some(pid), ..Watched::default() }).cpu_s.is_none()
    {
        return Err(format!("--pid {pid}: there is no such process"));
    }
    if let Some(metrics) = metrics {
        let sample = look(Watched { metrics: Some(metrics), ..Watched::default() });
        if sample.cpu_s.is_none() && sample.gauges.iter().all(Option::is_none) {
            return Err(format!(
                "--metrics {metrics}: no metrics of mailprobe are there (`serve --metrics ADDR` sets the address)"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_sources_of_costs_are_named() {
        assert_eq!(costs_are_known(None, None), Ok(()));
        assert_eq!(costs_are_known(Some(std::process::id()), None), Ok(()));
        let wrong = costs_are_known(Some(i32::MAX as u32), None).unwrap_err();
        assert_eq!(wrong, "--pid 2147483647: there is no such process");
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let wrong = costs_are_known(None, Some(nobody)).unwrap_err();
        assert!(wrong.starts_with(&format!("--metrics {nobody}: no metrics")), "{wrong}");
    }

    #[test]
    fn a_folder_without_a_server_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("nodata");
        let wrong = data_is_served(&absent, "127.0.0.1:8080").unwrap_err();
        assert!(wrong.ends_with("nodata: no server runs on this folder, so 127.0.0.1:8080 uses another one"));
        assert!(!absent.exists());
        let socket = std::os::unix::net::UnixListener::bind(folder.path().join(ADMIN_SOCKET)).unwrap();
        assert_eq!(data_is_served(folder.path(), "h:1"), Ok(()));
        // A killed server leaves its socket.
        drop(socket);
        assert!(data_is_served(folder.path(), "h:1").is_err());
    }
}

//! A receiver of webhooks with a script: what it does with each request, in turn.

use crate::harness::certificate::tls;
use crate::until;
use data_encoding::BASE64;
use ring::hmac;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a receiver does with a request that it has read.
#[derive(Clone)]
pub enum Act {
    /// Sends these bytes, and closes.
    Answer(Vec<u8>),
    /// Closes without an answer.
    Close,
    /// Says nothing until the client closes.
    Hang,
    /// Sends an answer byte by byte, without an end.
    Drip,
    /// Answers 200 after this time.
    Slow(Duration),
}

pub fn status(status: u16) -> Act {
    Act::Answer(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").into_bytes())
}

pub fn ok() -> Act {
    status(200)
}

/// A request.
#[derive(Debug, Clone)]
pub struct Got {
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Got {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Whether one of its signatures is that of this secret.
    pub fn is_signed_by(&self, secret: &str) -> bool {
        let secret = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
        let signed =
            format!("{}.{}.{}", self.header("webhook-id"), self.header("webhook-timestamp"), self.body);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
        let expected = format!("v1,{}", BASE64.encode(tag.as_ref()));
        self.header("webhook-signature").split(' ').any(|signature| signature == expected)
    }
}

pub struct Receiver {
    pub port: u16,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Receiver {
    /// Starts a receiver; its last act is repeated.
    pub fn start(acts: Vec<Act>) -> Receiver {
        Receiver::serve(acts, None)
    }

    /// Starts a receiver with a certificate for this name. The server of this folder trusts it if `trusted`.
    pub fn start_tls(folder: &Path, name: &str, trusted: bool) -> Receiver {
        let config = tls(&folder.join("authorities.pem"), name, trusted);
        Receiver::serve(vec![ok()], Some(config))
    }

    fn serve(acts: Vec<Act>, tls: Option<Arc<ServerConfig>>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let all = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (all, acts, tls) = (Arc::clone(&all), acts.clone(), tls.clone());
                std::thread::spawn(move || match tls {
                    None => receive(stream, &all, &acts),
                    Some(tls) => {
                        let connection = ServerConnection::new(tls).unwrap();
                        receive(StreamOwned::<_, TcpStream>::new(connection, stream), &all, &acts);
                    }
                });
            }
        });
        Receiver { port, got }
    }

    pub fn url(&self, target: &str) -> String {
        format!("http://127.0.0.1:{}{target}", self.port)
    }

    /// All requests so far.
    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// Waits for so many requests.
    pub fn wait(&self, count: usize) -> Vec<Got> {
        until(|| match self.got() {
            got if got.len() >= count => Ok(got),
            got => Err(format!("{} of {count} requests", got.len())),
        })
    }
}

fn receive(mut stream: impl Read + Write, all: &Mutex<Vec<Got>>, acts: &[Act]) {
    let Some(got) = read(&mut stream) else { return };
    let number = {
        let mut all = all.lock().unwrap();
        all.push(got);
        all.len() - 1
    };
    match acts[number.min(acts.len() - 1)].clone() {
        Act::Answer(bytes) => drop(stream.write_all(&bytes).and_then(|()| stream.flush())),
        Act::Close => {}
        Act::Hang => while stream.read(&mut [0; 64]).is_ok_and(|length| length > 0) {},
        Act::Drip => {
            let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            while sent.is_ok() {
                std::thread::sleep(Duration::from_millis(200));
                sent = stream.write_all(b"a: b\r\n");
            }
        }
        Act::Slow(time) => {
            std::thread::sleep(time);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        }
    }
}

/// Reads a request; `None` if the client sends none.
fn read(stream: &mut impl Read) -> Option<Got> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let line = lines.next()?.to_owned();
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
            if body.len() >= length {
                return Some(Got { line, headers, body: body.to_owned() });
            }
        }
        match stream.read(&mut piece) {
            Ok(length) if length > 0 => bytes.extend_from_slice(&piece[..length]),
            _ => return None,
        }
    }
}

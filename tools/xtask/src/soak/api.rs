//! The API as a program uses it that keeps no connection: each request has its own, and one complete answer.

use super::client::{HttpClient, HttpReply, HttpRequest};
use crate::failure::ensure;
use crate::interop::process::wait_until;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// A server and the key of an account. Without a key, requests have no `Authorization`.
///
/// The only error of all functions is that there is no complete answer.
#[derive(Debug, Clone, Copy)]
pub struct Api<'k> {
    pub server: SocketAddr,
    pub key: &'k str,
}

impl<'k> Api<'k> {
    /// A program that uses this key.
    pub fn new(server: SocketAddr, key: &'k str) -> Api<'k> {
        Api { server, key }
    }

    /// Sends any request with the key.
    pub fn send(self, request: HttpRequest) -> Result<HttpReply, String> {
        let request = if self.key.is_empty() { request } else { request.bearer(self.key) };
        HttpClient::program(self.server).ask(&request.header("Connection", "close"))
    }

    /// Sends `GET` of a path.
    pub fn get(self, path: &str) -> Result<HttpReply, String> {
        self.send(HttpRequest::get(path))
    }

    /// Sends `POST` of a JSON body.
    pub fn post(self, path: &str, body: &Value) -> Result<HttpReply, String> {
        self.send(HttpRequest::json(path, body))
    }

    /// Makes a full check of an address.
    pub fn verify(self, address: &str) -> Result<HttpReply, String> {
        self.post("/v1/verify", &json!({ "email": address }))
    }

    /// Submits a batch, with the Idempotency-Key `once` unless that is empty.
    pub fn submit(self, once: &str, addresses: &[String]) -> Result<HttpReply, String> {
        let request = HttpRequest::json("/v1/verify/batch", &json!({ "emails": addresses }));
        self.send(if once.is_empty() { request } else { request.header("Idempotency-Key", once) })
    }

    /// Asks for the state of a batch.
    pub fn poll(self, id: &str) -> Result<HttpReply, String> {
        self.get(&format!("/v1/verify/batch/{id}"))
    }

    /// Waits until a batch is complete, and returns its last state. An error also if that takes too long.
    pub fn complete(self, id: &str, limit: Duration) -> Result<Value, String> {
        let mut last = String::new();
        let mut state = Value::Null;
        let waited = wait_until(&format!("the batch {id}"), limit, || {
            let reply = self.poll(id)?;
            (last, state) = (reply.to_string(), reply.json());
            ensure!(reply.status == 200, "not polled: {last}");
            Ok(state["status"] == "completed")
        });
        waited.map(|()| state).map_err(|failure| format!("{}: {last}", failure.0))
    }
}

//! Starts a mailnet, and an engine that asks its servers.

use engine::config::{DriverChoice, EngineConfig, Network, Pace, RuntimeChoice};
use engine::proto::address::Address;
use engine::{Answer, Client, Engine, Priority, Request};
use mailnet::{Mailnet, Running, Scenario};
use std::net::ToSocketAddrs;
use std::time::Duration;

pub fn scenario(text: &str) -> Scenario {
    let any = "127.0.0.1:0".parse().expect("an address");
    Scenario::parse(text).expect("the scenario is sound").with_dns(any).with_smtp_port(0)
}

pub fn world(text: &str) -> Running {
    Mailnet::start(scenario(text)).expect("mailnet starts")
}

/// An engine that asks one resolver, or several.
pub fn engine(resolvers: impl ToSocketAddrs, smtp_port: u16, pace: Pace) -> Engine {
    Engine::start(config(resolvers, smtp_port, pace)).expect("the engine starts")
}

pub fn config(resolvers: impl ToSocketAddrs, smtp_port: u16, pace: Pace) -> EngineConfig {
    EngineConfig {
        resolvers: resolvers.to_socket_addrs().expect("addresses").collect(),
        smtp_port,
        allow_net: ["127.0.0.0/8", "::1"].map(|net| Network::parse(net).expect("a network")).into(),
        ehlo: Some("probe.example".into()),
        shards: 2,
        runtime: RuntimeChoice::Monoio,
        driver: DriverChoice::Epoll,
        pace,
        ..EngineConfig::default()
    }
}

/// A request that asks for a trace. All tests have the same owner.
pub fn request(ticket: u64, address: &str, priority: Priority) -> Request {
    let address = Address::parse(address).expect("an address");
    Request { ticket, address, priority, owner: 0, trace: true, observed: false }
}

/// Submits a request. The engine must have room for it.
pub fn submit(client: &Client, ticket: u64, address: &str, priority: Priority) {
    client.submit(request(ticket, address, priority)).expect("room");
}

/// Waits for the next answer.
pub fn answer(client: &Client) -> Answer {
    client.answer_blocking(Duration::from_secs(60)).expect("an answer")
}

/// Asks about one address, and waits for the answer.
pub fn ask(client: &Client, address: &str, priority: Priority) -> Answer {
    submit(client, 1, address, priority);
    answer(client)
}

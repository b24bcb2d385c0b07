//! A small mail internet and an engine that asks it.

use engine::Engine;
use engine::config::{DriverChoice, EngineConfig, Network, Pace, RuntimeChoice};
use mailnet::{Mailnet, Running, Scenario};
use std::net::ToSocketAddrs;

pub fn world(text: &str) -> Running {
    let any = "127.0.0.1:0".parse().expect("an address");
    let scenario = Scenario::parse(text).expect("the scenario is sound").with_dns(any).with_smtp_port(0);
    Mailnet::start(scenario).expect("mailnet starts")
}

/// An engine that asks one resolver, or several.
pub fn engine(resolvers: impl ToSocketAddrs, smtp_port: u16, pace: Pace) -> Engine {
    Engine::start(config(resolvers, smtp_port, pace)).expect("the engine starts")
}

pub fn config(resolvers: impl ToSocketAddrs, smtp_port: u16, pace: Pace) -> EngineConfig {
    EngineConfig {
        resolvers: resolvers.to_socket_addrs().expect("addresses").collect(),
        smtp_port,
        allow_net: vec![Network::parse("127.0.0.0/8").expect("a network")],
        ehlo: Some("probe.example".into()),
        shards: 2,
        runtime: RuntimeChoice::Monoio,
        driver: DriverChoice::Epoll,
        pace,
        ..EngineConfig::default()
    }
}

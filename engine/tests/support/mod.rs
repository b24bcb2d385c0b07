//! A small mail internet and an engine that asks it.

use engine::Engine;
use engine::config::{DriverChoice, EngineConfig, Network, Pace, RuntimeChoice};
use mailnet::{Mailnet, Running, Scenario};
use std::net::SocketAddr;

pub fn world(text: &str) -> Running {
    let any = "127.0.0.1:0".parse().expect("an address");
    let scenario = Scenario::parse(text).expect("the scenario is sound").with_dns(any).with_smtp_port(0);
    Mailnet::start(scenario).expect("mailnet starts")
}

pub fn engine(resolver: SocketAddr, smtp_port: u16) -> Engine {
    Engine::start(EngineConfig {
        resolvers: vec![resolver],
        smtp_port,
        allow_net: vec![Network::parse("127.0.0.0/8").expect("a network")],
        ehlo: Some("probe.example".into()),
        shards: 2,
        runtime: RuntimeChoice::Monoio,
        driver: DriverChoice::Epoll,
        pace: Pace::Lab,
        ..EngineConfig::default()
    })
    .expect("the engine starts")
}

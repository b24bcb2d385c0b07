//! The DNS sockets: UDP and TCP on one address and port.

use crate::{
    answer::{Port, Reaction, react, refuse},
    running::Net,
    stats::DnsKind,
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    time::{sleep, timeout},
};

/// How long the true answer is delayed after a forged one.
const FORGED_LEAD: Duration = Duration::from_millis(5);
const TCP_IDLE: Duration = Duration::from_secs(30);
/// The most queries of one TCP connection.
const TCP_QUERIES_MAX: usize = 1_000;

pub(crate) async fn serve_udp(net: Arc<Net>, socket: Arc<UdpSocket>) {
    let mut buffer = vec![0; 4096];
    loop {
        let Ok((bytes, client)) = socket.recv_from(&mut buffer).await else {
            // ICMP errors of earlier answers are reported here; the socket still works.
            tokio::task::yield_now().await;
            continue;
        };
        let count = net.counters.dns(DnsKind::Udp);
        let every = net.world.dns.drop_every;
        if every > 0 && count.is_multiple_of(every) {
            net.counters.dns(DnsKind::Dropped);
            continue;
        }
        let latency = net.dns_latency();
        let Some(under_way) = net.takes_query() else {
            net.counters.dns(DnsKind::Dropped);
            if net.world.dns.refuse
                && let Some(answer) = refuse(&buffer[..bytes])
            {
                socket.send_to(&answer, client).await.ok();
            }
            continue;
        };
        let reaction = react(&net.world, &buffer[..bytes], true, net.lie());
        net.counters.dns(reaction.kind.unwrap_or(DnsKind::Unreadable));
        if latency.is_zero() && reaction.forged.is_none() {
            if let Some(answer) = reaction.answer {
                // A full send buffer or a closed client loses the datagram, as in any network.
                socket.send_to(&answer, client).await.ok();
            }
        } else {
            let late = send_late(socket.clone(), client, reaction, latency);
            tokio::spawn(async move {
                late.await;
                drop(under_way);
            });
        }
    }
}

async fn send_late(socket: Arc<UdpSocket>, client: SocketAddr, reaction: Reaction, latency: Duration) {
    sleep(latency).await;
    if let Some((port, lie)) = reaction.forged {
        let other = match (port, socket.local_addr()) {
            (Port::Other, Ok(local)) => UdpSocket::bind((local.ip(), 0)).await.ok(),
            _ => None,
        };
        other.as_ref().unwrap_or(&socket).send_to(&lie, client).await.ok();
        sleep(FORGED_LEAD).await;
    }
    if let Some(answer) = reaction.answer {
        socket.send_to(&answer, client).await.ok();
    }
}

pub(crate) async fn serve_tcp(net: Arc<Net>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let net = net.clone();
                // A client that breaks the connection ends only its own.
                tokio::spawn(async move { tcp_session(&net, stream).await.ok() });
            }
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn tcp_session(net: &Net, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    for _ in 0..TCP_QUERIES_MAX {
        let mut query = vec![0; usize::from(timeout(TCP_IDLE, stream.read_u16()).await??)];
        timeout(TCP_IDLE, stream.read_exact(&mut query)).await??;
        net.counters.dns(DnsKind::Tcp);
        let reaction = react(&net.world, &query, false, net.lie());
        net.counters.dns(reaction.kind.unwrap_or(DnsKind::Unreadable));
        sleep(net.dns_latency()).await;
        let Some(answer) = reaction.answer else { continue };
        let Ok(bytes) = u16::try_from(answer.len()) else { continue };
        stream.write_all(&[&bytes.to_be_bytes(), answer.as_slice()].concat()).await?;
    }
    Ok(())
}

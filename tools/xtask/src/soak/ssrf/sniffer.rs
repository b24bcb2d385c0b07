//! A recorder of every packet that is sent in a namespace, on each of its devices (packet(7)).

use crate::failure::{Context, Failure};
use crate::interop::process::wait_until;
use crate::soak::crowd::lock;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// The TCP flag by which the kernel refuses a connection.
const RESET: u8 = 4;
/// Protocols of the kernel's own packets: ICMP, IGMP, hop-by-hop options (before reports of groups) and ICMPv6. A
/// program's first packet to a host has another protocol.
const OF_THE_KERNEL: [u8; 4] = [1, 2, 0, 58];
/// The destination of marks: an address that no test uses, and the first port.
const MARK: (Ipv4Addr, u16) = (Ipv4Addr::new(1, 0, 0, 1), 20_000);
const MARK_LIMIT: Duration = Duration::from_secs(20);
const BUFFER_BYTES: usize = 16 << 20;

/// The destination, protocol and port of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    pub to: IpAddr,
    pub protocol: u8,
    pub port: u16,
}

/// All destinations that packets were sent to.
pub type PacketLog = BTreeSet<Packet>;

/// A running sniffer; it ends when it is dropped.
pub struct Sniffer {
    seen: Arc<Mutex<PacketLog>>,
    marks: AtomicU16,
    marker: UdpSocket,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Sniffer {
    /// Starts a sniffer in the namespace of this process. It leaves out TCP and UDP between these ports on 127.0.0.1
    /// and any other port there.
    ///
    /// # Errors
    ///
    /// The packet socket cannot be opened, which needs root.
    pub fn start(ours: Vec<u16>) -> Result<Sniffer, Failure> {
        let (family, kind) = (AddressFamily::PACKET, SocketType::DGRAM);
        let socket =
            socket_with(family, kind, SocketFlags::CLOEXEC, Some(eth::ALL)).about("a packet socket")?;
        sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).about("a packet socket")?;
        let look = Some(Duration::from_millis(100));
        sockopt::set_socket_timeout(&socket, Timeout::Recv, look).about("a packet socket")?;
        let marker = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).about("a packet socket")?;
        let (seen, end) = (Arc::default(), Arc::default());
        let thread = {
            let (seen, end) = (Arc::clone(&seen), Arc::clone(&end));
            std::thread::spawn(move || listen(&socket, &ours, &seen, &end))
        };
        Ok(Sniffer { seen, marks: AtomicU16::new(0), marker, end, thread: Some(thread) })
    }

    /// Returns all packets that were sent before this call. It sends a mark and waits for it. The sniffer gets packets
    /// in the order of sending, so it has recorded all earlier ones by then.
    ///
    /// # Errors
    ///
    /// The mark does not arrive, or the sniffer has failed.
    pub fn seen(&self) -> Result<PacketLog, Failure> {
        let port = MARK.1 + self.marks.fetch_add(1, Ordering::Relaxed);
        let to = SocketAddr::from((MARK.0, port));
        self.marker.send_to(b"mark", to).about("a mark")?;
        let mark = Packet { to: to.ip(), protocol: UDP, port };
        wait_until("the sniffer's mark", MARK_LIMIT, || Ok(lock(&self.seen).contains(&mark)))?;
        Ok(self.so_far())
    }

    /// The packets that were recorded until now, without marks.
    pub fn so_far(&self) -> PacketLog {
        lock(&self.seen).iter().filter(|packet| packet.to != MARK.0).copied().collect()
    }

    /// Removes all packets that were sent before this call.
    pub fn forget(&self) -> Result<(), Failure> {
        self.seen()?;
        lock(&self.seen).clear();
        Ok(())
    }

    /// Ends the sniffer.
    ///
    /// # Errors
    ///
    /// It had stopped recording before.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.end.store(true, Ordering::Relaxed);
        let thread = self.thread.take().map(JoinHandle::join);
        thread.map_or(Ok(()), |ended| ended.unwrap_or_else(|_| Err(Failure("the sniffer panicked".into()))))
    }
}

impl Drop for Sniffer {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn listen(socket: &OwnedFd, ours: &[u16], seen: &Mutex<PacketLog>, end: &AtomicBool) -> Result<(), Failure> {
    let mut bytes = [0; 128];
    while !end.load(Ordering::Relaxed) {
        match recv(socket, &mut bytes, RecvFlags::empty()) {
            Ok((_, length)) => {
                if let Some(packet) = read(&bytes[..length.min(128)], ours) {
                    lock(seen).insert(packet);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(Failure(format!("the sniffer: {error}"))),
        }
    }
    Ok(())
}

/// Reads a packet of a program; `None` for packets of the kernel and of the test itself.
fn read(bytes: &[u8], ours: &[u16]) -> Option<Packet> {
    let (protocol, from, to, head) = match bytes.first()? >> 4 {
        4 => {
            let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?));
            let head = usize::from(bytes[0] & 15) * 4;
            (*bytes.get(9)?, IpAddr::V4(address(12)?), IpAddr::V4(address(16)?), head)
        }
        6 => {
            let address =
                |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(at..at + 16)?).ok()?));
            (*bytes.get(6)?, IpAddr::V6(address(8)?), IpAddr::V6(address(24)?), 40)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (source, port) = (port(head).unwrap_or(0), port(head + 2).unwrap_or(0));
    let flags = bytes.get(head + 13).copied().unwrap_or(0);
    if protocol == TCP && flags & RESET != 0 {
        return None;
    }
    let is_inside = from == Ipv4Addr::LOCALHOST && to == Ipv4Addr::LOCALHOST;
    let is_ours = is_inside && (ours.contains(&source) || ours.contains(&port));
    (!is_ours && !OF_THE_KERNEL.contains(&protocol)).then_some(Packet { to, protocol, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with the ports of TCP.
    fn v4(protocol: u8, from: [u8; 4], to: [u8; 4], ports: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(from);
        packet.extend(to);
        packet.extend(ports);
        packet
    }

    #[test]
    fn what_others_send_is_told() {
        let (inside, out) = ([127, 0, 0, 1], [10, 0, 0, 1]);
        let smtp = [200, 0, 0, 25];
        let told = |protocol, from, to, ports| read(&v4(protocol, from, to, ports), &[53]);
        let packet = Packet { to: out.into(), protocol: 6, port: 25 };
        assert_eq!(told(6, [9; 4], out, smtp), Some(packet));
        assert_eq!(told(6, inside, inside, smtp), Some(Packet { to: inside.into(), ..packet }));
        assert_eq!(told(17, inside, inside, [200, 0, 0, 53]), None);
        assert_eq!(told(17, inside, inside, [0, 53, 200, 0]), None);
        assert_eq!(told(1, [9; 4], out, [0; 4]), None);
        let refusal = [v4(TCP, out, inside, smtp), vec![0; 9], vec![RESET]].concat();
        assert_eq!(read(&refusal, &[]), None);
        assert!(told(17, inside, out, [200, 0, 0, 53]).is_some(), "a resolver elsewhere is none of ours");
    }

    #[test]
    fn ipv6_is_read() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        packet.extend(Ipv6Addr::LOCALHOST.octets());
        packet.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend([200, 0, 1, 187]);
        let expected = Packet { to: "fd00::1".parse().unwrap(), protocol: 6, port: 443 };
        assert_eq!(read(&packet, &[]), Some(expected));
        packet[6] = 58;
        assert_eq!(read(&packet, &[]), None);
        assert_eq!(read(&packet[..30], &[]), None);
    }
}

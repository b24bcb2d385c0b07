//! The listening sockets: one for each frontend thread, on one port.
//!
//! With SO_REUSEPORT, a second server of the same user could share the port without an error. So the first socket is
//! bound without the option, which fails if another process uses the port. Only then is the option set for the other
//! sockets.

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// How many connections may wait for accept, for each socket.
const BACKLOG: i32 = 1024;
/// A peer that acknowledges nothing, or keeps its window closed, for this time is disconnected.
const PEER_SILENT_MAX: Duration = Duration::from_secs(30);
/// How many bytes of answers the kernel takes for a peer that does not read. Those on their way do not count, so this does not
/// limit the speed of a line. Otherwise the kernel would take megabytes for each connection.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// How long a start waits for an address that is in use.
const IN_USE_MAX: Duration = Duration::from_secs(2);
const IN_USE_PAUSE: Duration = Duration::from_millis(20);

/// How long the threads accept waiting connections after [`refuse_new`].
pub const QUEUE_TIME: Duration = Duration::from_millis(100);

/// The listening sockets of the server.
pub struct Listeners {
    /// One socket for each thread.
    pub sockets: Vec<TcpListener>,
    /// The address, with the assigned port if 0 was requested.
    pub address: SocketAddr,
}

impl Listeners {
    /// Binds `count` sockets, at least one, and listens on them. An address in use is tried again for a while: the
    /// kernel releases the port of a killed process only with its io_uring.
    ///
    /// # Errors
    ///
    /// One line that names the cause and a remedy.
    pub fn open(address: SocketAddr, count: usize) -> Result<Listeners, String> {
        let until = Instant::now() + IN_USE_MAX;
        let opened = loop {
            match Listeners::try_open(address, count) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                    std::thread::sleep(IN_USE_PAUSE);
                }
                opened => break opened,
            }
        };
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("cannot listen on {address}: address in use; stop the program that uses it, or choose another --listen")
            }
            _ => format!("cannot listen on {address}: {error}; choose another --listen"),
        })
    }

    fn try_open(address: SocketAddr, count: usize) -> io::Result<Listeners> {
        let first = socket(address)?;
        first.bind(&address.into())?;
        first.set_reuse_port(true)?;
        // The socket must listen at once: SO_REUSEADDR lets another process bind until then.
        first.listen(BACKLOG)?;
        let found = first.local_addr()?.as_socket().unwrap_or(address);
        let mut sockets = vec![first.into()];
        for _ in 1..count {
            let next = socket(found)?;
            next.set_reuse_port(true)?;
            next.bind(&found.into())?;
            next.listen(BACKLOG)?;
            sockets.push(next.into());
        }
        Ok(Listeners { sockets, address: found })
    }
}

/// Lets no further connection begin on a listening socket: the kernel drops each SYN. Handshakes under way are completed. A client
/// sends its SYN again after a second, when the socket is closed, and gets the refusal.
///
/// Some kernels take a filter only from a user with CAP_NET_ADMIN. Then the socket wants a hop limit that nearly no packet has (RFC 5082).
/// Unlike the filter, this passes on to connections whose handshakes end later: [`take_all_hops`] ends it for them.
///
/// # Errors
///
/// The kernel takes neither.
pub fn refuse_new(listener: &TcpListener) -> io::Result<()> {
    // The position of the flags in a TCP header, and ACK (RFC 9293 3.1). Only the first segment of a connection has no ACK.
    const FLAGS: u32 = 13;
    const ACK: u32 = 0x10;
    let step = |code: u32, jf: u8, k: u32| SockFilter::new(code as u16, 0, jf, k);
    let filtered = SockRef::from(listener).attach_filter(&[
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, FLAGS),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 1, ACK),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ]);
    match filtered {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refuse_by_hops(listener),
        other => other,
    }
}

/// Does the same by the hop limit: the kernel drops a SYN that has passed a router or comes from a usual system, which sends 64 or 128.
fn refuse_by_hops(listener: &TcpListener) -> io::Result<()> {
    const HOPS_MOST: libc::c_int = 255;
    set_hops_min(listener.as_raw_fd(), listener.local_addr()?.is_ipv6(), HOPS_MOST)
}

/// Lets a connection that was accepted after [`refuse_new`] receive packets with any hop limit.
///
/// # Errors
///
/// The kernel does not take the option.
pub fn take_all_hops(stream: RawFd, is_ipv6: bool) -> io::Result<()> {
    set_hops_min(stream, is_ipv6, 0)
}

/// Sets the least hop limit of packets that a socket receives (`IP_MINTTL` of ip(7), `IPV6_MINHOPCOUNT`). A socket of IPv6 may have
/// connections of IPv4 too.
#[expect(unsafe_code, reason = "neither socket2 nor rustix has these options")]
fn set_hops_min(socket: RawFd, is_ipv6: bool, hops: libc::c_int) -> io::Result<()> {
    let all =
        [(libc::IPPROTO_IP, libc::IP_MINTTL, true), (libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, is_ipv6)];
    for (level, option, _) in all.into_iter().filter(|(.., applies)| *applies) {
        // SAFETY: the option is an int, whose address and size are given; a wrong descriptor is an error.
        let set = unsafe {
            libc::setsockopt(socket, level, option, (&raw const hops).cast(), size_of_val(&hops) as u32)
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit these options.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    socket.set_tcp_user_timeout(Some(PEER_SILENT_MAX))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn a_port_that_is_being_given_back_is_waited_for() {
        let killed = Listeners::open(SocketAddr::from(([127, 0, 0, 1], 0)), 1).unwrap();
        let address = killed.address;
        let gives_back = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(killed);
        });
        assert_eq!(Listeners::open(address, 2).unwrap().address, address);
        gives_back.join().unwrap();
    }

    #[test]
    fn connections_that_wait_are_accepted_and_further_ones_do_not_begin() {
        let listeners = Listeners::open(SocketAddr::from(([127, 0, 0, 1], 0)), 1).unwrap();
        let waits = TcpStream::connect(listeners.address).unwrap();
        refuse_new(&listeners.sockets[0]).unwrap();
        assert!(TcpStream::connect_timeout(&listeners.address, Duration::from_millis(50)).is_err());
        let (accepted, peer) = listeners.sockets[0].accept().unwrap();
        assert_eq!(peer, waits.local_addr().unwrap());
        drop((accepted, waits));
    }

    #[test]
    fn without_a_filter_the_hop_limit_refuses_further_connections() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listeners) = Listeners::open(address.parse().unwrap(), 1) else {
                assert!(address.contains("::"), "{address}: only IPv6 may be missing");
                continue;
            };
            let port = listeners.address.port();
            let loopback: SocketAddr = match listeners.address.is_ipv6() {
                true => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)),
                false => SocketAddr::from(([127, 0, 0, 1], port)),
            };
            let mut waits = TcpStream::connect(loopback).unwrap();
            refuse_by_hops(&listeners.sockets[0]).unwrap();
            let soon = Duration::from_millis(50);
            assert!(TcpStream::connect_timeout(&loopback, soon).is_err(), "{address}");
            let (mut accepted, _) = listeners.sockets[0].accept().unwrap();
            take_all_hops(accepted.as_raw_fd(), loopback.is_ipv6()).unwrap();
            waits.write_all(b"x").unwrap();
            accepted.read_exact(&mut [0]).unwrap();
        }
    }

    #[test]
    fn brothers_share_the_port_and_strangers_are_refused() {
        let Listeners { sockets, address } =
            Listeners::open(SocketAddr::from(([127, 0, 0, 1], 0)), 3).unwrap();
        assert!(address.port() != 0);
        let Err(said) = Listeners::open(address, 1) else { panic!("a second server joined") };
        assert!(said.contains("address in use"), "{said}");
        let clients: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut accepted = 0;
        for listener in &sockets {
            listener.set_nonblocking(true).unwrap();
            let before = accepted;
            while listener.accept().is_ok() {
                accepted += 1;
            }
            assert!(accepted > before, "the kernel spreads connections over all sockets");
        }
        assert_eq!(accepted, clients.len());
    }
}

//! The listening sockets: one for each frontend thread, on one port.
//!
//! With SO_REUSEPORT, a second server of the same user could share the port without an error. So the first socket is
//! bound without the option, which fails if another process uses the port. Only then is the option set for the other
//! sockets.

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// How many connections may wait for accept, for each socket.
const BACKLOG: i32 = 1024;
/// A peer that acknowledges nothing, or keeps its window closed, for this time is disconnected.
const PEER_SILENT_MAX: Duration = Duration::from_secs(30);

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
/// # Errors
///
/// The kernel takes no filter.
pub fn refuse_new(listener: &TcpListener) -> io::Result<()> {
    // The position of the flags in a TCP header, and ACK (RFC 9293 3.1). Only the first segment of a connection has no ACK.
    const FLAGS: u32 = 13;
    const ACK: u32 = 0x10;
    let step = |code: u32, jf: u8, k: u32| SockFilter::new(code as u16, 0, jf, k);
    SockRef::from(listener).attach_filter(&[
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, FLAGS),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 1, ACK),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ])
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit both options.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(PEER_SILENT_MAX))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
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

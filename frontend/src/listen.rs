//! The listening sockets: one for each frontend thread, on one port.
//!
//! SO_REUSEPORT would let a second server of the same user join the port in silence. So the first socket is bound
//! without it, which fails when anybody else is there; only then it opens the port for its brothers.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// Connections that wait to be accepted, for each socket.
const BACKLOG: i32 = 1024;
/// A peer that acknowledges nothing for so long, or keeps its window shut, is gone.
const PEER_SILENT_MAX: Duration = Duration::from_secs(30);

/// Sockets that are bound and not yet listening.
pub struct Bound {
    sockets: Vec<Socket>,
    /// The address, with the port that was found if 0 was asked for.
    pub address: SocketAddr,
}

impl Bound {
    /// Binds `count` sockets.
    ///
    /// # Errors
    /// One line that says what to do.
    pub fn new(address: SocketAddr, count: usize) -> Result<Bound, String> {
        Bound::bind(address, count).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("cannot listen on {address}: address in use; stop what runs there or choose another --listen")
            }
            _ => format!("cannot listen on {address}: {error}; choose another --listen"),
        })
    }

    fn bind(address: SocketAddr, count: usize) -> io::Result<Bound> {
        let first = socket(address)?;
        first.bind(&address.into())?;
        first.set_reuse_port(true)?;
        let found = first.local_addr()?.as_socket().unwrap_or(address);
        let mut sockets = vec![first];
        for _ in 1..count {
            let next = socket(found)?;
            next.set_reuse_port(true)?;
            next.bind(&found.into())?;
            sockets.push(next);
        }
        Ok(Bound { sockets, address: found })
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// One line: somebody else may have begun to listen since.
    pub fn listen(self) -> Result<Vec<TcpListener>, String> {
        let listen = |socket: Socket| socket.listen(BACKLOG).map(|()| socket.into());
        self.sockets
            .into_iter()
            .map(listen)
            .collect::<io::Result<Vec<TcpListener>>>()
            .map_err(|error| format!("cannot listen on {}: {error}; choose another --listen", self.address))
    }
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit both.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(PEER_SILENT_MAX))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn brothers_share_the_port_and_strangers_are_refused() {
        let bound = Bound::new(SocketAddr::from(([127, 0, 0, 1], 0)), 3).unwrap();
        let address = bound.address;
        assert!(address.port() != 0);
        let Err(said) = Bound::new(address, 1) else {
            panic!("a second server joined before the first listened")
        };
        assert!(said.contains("address in use"), "{said}");
        let listeners = bound.listen().unwrap();
        assert!(Bound::new(address, 1).is_err());
        let clients: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut accepted = 0;
        for listener in &listeners {
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

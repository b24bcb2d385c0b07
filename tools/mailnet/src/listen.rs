//! The sockets of a mail internet, bound before anything is served.
//!
//! There are two ways, since all hosts share one port. With one socket per address, a refused host is an address
//! without a socket. With one socket on 0.0.0.0 for thousands of addresses, no address of 127.0.0.0/8 can be refused:
//! the kernel accepts a connection to a refused host, and it is reset at once. Connecting to a black hole times out: with one socket
//! per address, because the queue of its socket is full; with one socket for all, because a socket filter drops the packets. Some
//! kernels let only processes with CAP_NET_ADMIN attach a filter. Then each black hole has a socket of its own, on the same port.

use crate::{
    spec::{HostState, Listen, ListenMode},
    world::{BLACKHOLE_NET, World},
};
use socket2::{Domain, SockFilter, Socket, Type};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

/// With more addresses than this, `auto` means one socket for all.
const EACH_MAX: usize = 1024;
const BACKLOG: i32 = 4096;
/// Another process may use the free port between two binds; then another port is tried.
const TRIES: usize = 32;
const UDP_BUFFER_BYTES: usize = 4 << 20;

/// The bound sockets.
pub(crate) struct Sockets {
    pub dns: SocketAddr,
    pub udp: UdpSocket,
    pub tcp: TcpListener,
    pub smtp_port: u16,
    pub smtp: Vec<TcpListener>,
    /// Sockets that are never read: their packets are dropped.
    pub blackholes: Vec<Socket>,
}

pub(crate) fn bind(listen: &Listen, world: &World) -> io::Result<Sockets> {
    let (dns, udp, tcp) = tries(listen.dns.port(), || bind_dns(listen.dns))?;
    let (smtp_port, smtp, blackholes) = tries(listen.smtp_port, || bind_smtp(listen, world))?;
    Ok(Sockets { dns, udp, tcp, smtp_port, smtp, blackholes })
}

/// Raises the soft limit of open files of this process to its hard limit and returns it. Every session needs a file,
/// and the usual soft limit of 1,024 would end a load test early.
pub fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If that is forbidden, the limit is unchanged.
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
    getrlimit(Resource::Nofile).current
}

fn tries<T>(port: u16, mut bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut left = if port == 0 { TRIES } else { 1 };
    loop {
        left -= 1;
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && left > 0 => {}
            done => return done,
        }
    }
}

fn bind_dns(address: SocketAddr) -> io::Result<(SocketAddr, UdpSocket, TcpListener)> {
    let tcp = listener(address, false, &[])?;
    let address = tcp.local_addr()?;
    let udp = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    udp.set_recv_buffer_size(UDP_BUFFER_BYTES)?;
    udp.set_nonblocking(true)?;
    udp.bind(&address.into())?;
    Ok((address, udp.into(), tcp))
}

type Smtp = (u16, Vec<TcpListener>, Vec<Socket>);

fn bind_smtp(listen: &Listen, world: &World) -> io::Result<Smtp> {
    let of = |state| {
        let hosts = world.hosts.iter().filter(move |host| host.state == state);
        hosts.flat_map(|host| host.addresses.iter().copied())
    };
    let served: Vec<IpAddr> = of(HostState::Up).collect();
    let holes: Vec<IpAddr> = of(HostState::Blackhole).collect();
    let wildcard = match listen.addresses {
        ListenMode::Auto => served.len() + holes.len() > EACH_MAX,
        ListenMode::Each => false,
        ListenMode::Wildcard => true,
    };
    let mut port = listen.smtp_port;
    let mut smtp: Vec<TcpListener> = Vec::new();
    let mut blackholes = Vec::new();
    if wildcard {
        let is_filtered = !holes.is_empty() && may_filter()?;
        let (own_sockets, filter) =
            if is_filtered { (Vec::new(), &drop_blackholes()[..]) } else { (holes, &[][..]) };
        let v6 = served.into_iter().filter(IpAddr::is_ipv6);
        for address in std::iter::once(Ipv4Addr::UNSPECIFIED.into()).chain(v6) {
            // The sockets of black holes share the port with the one for all addresses of IPv4.
            let shares_port = address.is_ipv4() && !own_sockets.is_empty();
            let filter = if address.is_ipv4() { filter } else { &[] };
            smtp.push(listener((address, port).into(), shares_port, filter)?);
            port = smtp[0].local_addr()?.port();
        }
        for address in own_sockets {
            blackholes.extend(full_listener((address, port).into(), true)?);
        }
        return Ok((port, smtp, blackholes));
    }
    for address in served {
        smtp.push(listener((address, port).into(), false, &[])?);
        port = smtp[0].local_addr()?.port();
    }
    for address in holes {
        let [hole, connected] = full_listener((address, port).into(), false)?;
        port = hole.local_addr()?.as_socket().map_or(port, |address| address.port());
        blackholes.extend([hole, connected]);
    }
    if port == 0 {
        // No host listens, so any free port is suitable.
        port = listener((Ipv4Addr::LOCALHOST, 0).into(), false, &[])?.local_addr()?.port();
    }
    Ok((port, smtp, blackholes))
}

/// A listener that accepts nothing, and the one connection that its queue has room for: the kernel drops the first segment of any
/// other, as if nobody were there.
fn full_listener(address: SocketAddr, shares_port: bool) -> io::Result<[Socket; 2]> {
    let socket = socket(address, shares_port)?;
    socket.listen(0)?;
    let connected = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    connected.connect(&socket.local_addr()?)?;
    Ok([socket, connected])
}

/// A socket at this address. `shares_port`: others of this user may have the same port.
fn socket(address: SocketAddr, shares_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shares_port)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Whether the kernel lets this process attach a filter to a socket.
fn may_filter() -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    match socket.attach_filter(&[SockFilter::new(BPF_RET, 0, 0, 0)]) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        attached => attached.map(|()| true),
    }
}

fn listener(address: SocketAddr, shares_port: bool, filter: &[SockFilter]) -> io::Result<TcpListener> {
    let socket = socket(address, shares_port)?;
    socket.set_nonblocking(true)?;
    if !filter.is_empty() {
        socket.attach_filter(filter)?;
    }
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

// Classic BPF (linux/filter.h): load a word; jump if equal; return.
const BPF_LD_W_ABS: u16 = 0x20;
const BPF_AND: u16 = 0x54;
const BPF_JEQ: u16 = 0x15;
const BPF_RET: u16 = 0x06;
/// SKF_NET_OFF: an offset from here on counts from the network header.
const NET_HEADER: u32 = 0xfff0_0000;
const IPV4_DESTINATION: u32 = 16;

/// A filter that drops packets to the network of black holes.
fn drop_blackholes() -> [SockFilter; 5] {
    [
        SockFilter::new(BPF_LD_W_ABS, 0, 0, NET_HEADER + IPV4_DESTINATION),
        SockFilter::new(BPF_AND, 0, 0, 0xffff_0000),
        SockFilter::new(BPF_JEQ, 0, 1, u32::from(BLACKHOLE_NET)),
        SockFilter::new(BPF_RET, 0, 0, 0),
        SockFilter::new(BPF_RET, 0, 0, u32::MAX),
    ]
}

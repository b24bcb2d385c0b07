//! The traits through which the engine uses an async runtime, and the choice of a runtime at the start.
//!
//! The runtimes are monoio, glommio (with the feature `glommio`), and those of tests (with the feature `sim`). In each runtime, a
//! task stays on its thread, so tasks and sockets need not be `Send`. Only the code in this folder calls monoio or glommio.

mod choice;
mod deadlines;
#[cfg(feature = "glommio")]
mod glommio;
#[cfg(feature = "sim")]
pub(crate) mod memory;
mod monoio;
#[cfg(feature = "sim")]
pub(crate) mod sim;

#[cfg(feature = "sim")]
pub(crate) use choice::run_in_memory;
pub(crate) use choice::{Chosen, Flavor, choose, run};

/// The runtime for tests. The tests use its epoll driver, which works on every kernel.
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::monoio::{Driver, Monoio, run};
}

use futures_lite::FutureExt;
use futures_lite::future::CatchUnwind;
use socket2::SockRef;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The result of an operation, with the buffer that was passed to the operation. After an error, the buffer may be a different one,
/// which is empty.
pub(crate) type Rented<T> = (io::Result<T>, Vec<u8>);

/// An async runtime. Its functions may be called only on a thread that the runtime drives.
pub(crate) trait Runtime: Sized + 'static {
    type Stream: ByteStream;
    type Datagrams: DatagramSocket;

    /// Starts a task on this thread. If the task panics, the other tasks go on.
    fn spawn(task: impl Future<Output = ()> + 'static);

    /// Called after a panic in a part of a shard that then begins again. Panics of tasks are handled without this call.
    fn on_panic() {
        log_panic();
    }

    fn sleep(time: Duration) -> impl Future<Output = ()>;

    /// The time on the clock of this runtime. A shard takes all times from this clock.
    fn now() -> Instant {
        Instant::now()
    }

    /// Awaits `future`. If `deadline` passes first, gives up and returns `None`, perhaps some 20 ms late.
    fn before<F: Future>(deadline: Instant, future: F) -> impl Future<Output = Option<F::Output>>;

    /// Connects over TCP from the address `source`, or from one that the kernel chooses if `None`. Sets TCP_NODELAY. If the
    /// deadline passes first, the error is [`io::ErrorKind::TimedOut`].
    fn connect(
        source: Option<IpAddr>,
        destination: SocketAddr,
        deadline: Instant,
    ) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Opens a UDP socket on a random port that receives only from `peer`.
    fn datagrams(peer: SocketAddr) -> io::Result<Self::Datagrams>;
}

/// Makes the main future of a thread, for the runtime that was chosen.
pub(crate) trait Main {
    fn run<R: Runtime>(self) -> impl Future<Output = ()> + 'static;
}

pub(crate) trait ByteStream: 'static {
    /// Waits for bytes, and reads those that have arrived into the empty `buffer`, up to its capacity. `Ok(0)`: the peer has closed
    /// the connection. If the deadline passes first, the error is [`io::ErrorKind::TimedOut`].
    fn read(&mut self, buffer: Vec<u8>, deadline: Instant) -> impl Future<Output = Rented<usize>>;

    /// Writes all of `buffer`, and returns it empty. If the deadline passes first, the error is [`io::ErrorKind::TimedOut`].
    fn write(&mut self, buffer: Vec<u8>, deadline: Instant) -> impl Future<Output = Rented<()>>;
}

pub(crate) trait DatagramSocket: 'static {
    /// Sends a datagram at once. If the kernel has no room for the datagram, drops it and returns `Ok`, because the network might
    /// lose it too. No task may wait for room: monoio on epoll keeps only one waker for all tasks that wait to write to a socket.
    fn send(&self, datagram: &[u8]) -> io::Result<()>;

    /// Like [`DatagramSocket::send`], but sends up to [`SEGMENTS_MAX`] datagrams with one call. The datagrams are one after the
    /// other in the buffer, and each is `length` bytes long.
    ///
    /// # Errors
    /// No datagram was sent, for example because the kernel or the network device cannot send several with one call.
    fn send_all(&self, datagrams: &[u8], length: u16) -> io::Result<()>;

    /// Waits for a datagram, and receives it into the empty `buffer`, up to its capacity.
    fn receive(&self, buffer: Vec<u8>) -> impl Future<Output = Rented<usize>>;

    /// Receives a datagram that has already arrived, and returns its length. If there is none, the error is
    /// [`io::ErrorKind::WouldBlock`].
    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// The largest number of datagrams that are sent with one call. Linux takes 64 (UDP_MAX_SEGMENTS; 128 since Linux 6.9), but more
/// than 32 are no faster.
pub(crate) const SEGMENTS_MAX: usize = 32;

/// A TCP socket that is ready to connect. `kind` is STREAM, with or without the flag for a nonblocking socket.
fn tcp_socket(
    kind: socket2::Type,
    source: Option<IpAddr>,
    destination: SocketAddr,
) -> io::Result<socket2::Socket> {
    let domain = socket2::Domain::for_address(destination);
    let socket = socket2::Socket::new(domain, kind, Some(socket2::Protocol::TCP))?;
    // Without this option, a TLS handshake takes 44 ms longer, because Nagle's algorithm waits for a delayed acknowledgement.
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        choose_port_late(&socket);
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    Ok(socket)
}

/// Lets the kernel choose the local port when the socket connects, and not when the socket is bound. A port that is chosen when the
/// socket is bound has to be free for every destination, so it cannot be one in TIME_WAIT. With such ports, a source could have
/// only some 28,000 sessions a minute (ip(7), IP_BIND_ADDRESS_NO_PORT; Linux 4.2).
fn choose_port_late(socket: &socket2::Socket) {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    let option = libc::IP_BIND_ADDRESS_NO_PORT;
    // SAFETY: `socket` keeps the descriptor open, and `on` has `length` bytes and lives until the call returns.
    #[expect(unsafe_code, reason = "socket2 does not have this option")]
    let _ = unsafe {
        // A kernel without this option chooses the port when the socket is bound, which works too.
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, option, (&raw const on).cast(), length)
    };
}

/// The size of the receive buffer that each UDP socket asks for, because bursts of answers overflow the default one. The kernel may
/// grant less, and that is no error.
const DATAGRAM_BUFFER_BYTES: usize = 1 << 20;

fn udp_socket(peer: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let domain = socket2::Domain::for_address(peer);
    let kind = socket2::Type::DGRAM.nonblocking();
    let socket = socket2::Socket::new(domain, kind, Some(socket2::Protocol::UDP))?;
    socket.set_recv_buffer_size(DATAGRAM_BUFFER_BYTES)?;
    socket.connect(&peer.into())?;
    Ok(socket.into())
}

/// Catches a panic of a task, which would otherwise end the executor with all its tasks.
///
/// The task is boxed, so that the executors move only a pointer and are compiled for one type of task.
fn caught(task: impl Future<Output = ()> + 'static) -> Caught {
    let task: BoxedTask = Box::pin(task);
    Caught { task: AssertUnwindSafe(task).catch_unwind() }
}

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

/// A task that logs its panic instead of passing it on.
struct Caught {
    task: CatchUnwind<AssertUnwindSafe<BoxedTask>>,
}

impl Future for Caught {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.task).poll(context).map(|done| {
            if done.is_err() {
                log_panic();
            }
        })
    }
}

fn log_panic() {
    tracing::error!("a task of the engine panicked");
}

/// Sends a datagram over the socket with this descriptor, without waiting.
fn send_now(socket: BorrowedFd<'_>, datagram: &[u8]) -> io::Result<()> {
    all_or_nothing(SockRef::from(&socket).send_with_flags(datagram, libc::MSG_DONTWAIT))
}

/// Like [`send_now`], but for several datagrams of one length. They pass through the kernel as one packet, which is divided only at
/// the device or the receiver (udp(7), UDP_SEGMENT; Linux 4.18). 16 datagrams take a sixth of the time of single calls.
fn send_segments(socket: BorrowedFd<'_>, datagrams: &[u8], length: u16) -> io::Result<()> {
    let control = segment_length(length);
    let parts = [io::IoSlice::new(datagrams)];
    let message = socket2::MsgHdr::new().with_buffers(&parts).with_control(&control);
    all_or_nothing(SockRef::from(&socket).sendmsg(&message, libc::MSG_DONTWAIT))
}

/// The control message that tells the kernel the length of each datagram, in the layout of cmsg(3).
fn segment_length(length: u16) -> [u8; CONTROL_BYTES] {
    let mut control = [0; CONTROL_BYTES];
    let header = size_of::<libc::cmsghdr>();
    let end = header + size_of::<u16>();
    control[..size_of::<usize>()].copy_from_slice(&end.to_ne_bytes());
    control[size_of::<usize>()..][..4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    control[size_of::<usize>() + 4..header].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    control[header..end].copy_from_slice(&length.to_ne_bytes());
    control
}

/// The size of a control message with two bytes of content, which are padded to a whole word.
const CONTROL_BYTES: usize = size_of::<libc::cmsghdr>() + size_of::<usize>();

/// If the kernel has no room for a datagram, this is no error: the datagram is dropped, as the network might drop it.
fn all_or_nothing(sent: io::Result<usize>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        sent => sent.map(drop),
    }
}

/// Receives a datagram that has already arrived on the socket with this descriptor.
fn receive_now(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buffer, rustix::net::RecvFlags::DONTWAIT)?.1)
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_source_has_no_port_until_it_connects() {
        for (source, peer) in [("127.0.0.2", "127.0.0.1"), ("::1", "::1")] {
            let (source, peer): (IpAddr, IpAddr) = (source.parse().unwrap(), peer.parse().unwrap());
            let listener = std::net::TcpListener::bind((peer, 0)).unwrap();
            let destination = listener.local_addr().unwrap();
            let socket = tcp_socket(socket2::Type::STREAM, Some(source), destination).unwrap();
            let bound = || socket.local_addr().unwrap().as_socket().unwrap();
            assert_eq!(bound(), SocketAddr::new(source, 0));
            socket.connect(&destination.into()).unwrap();
            assert_eq!(bound().ip(), source);
            assert_eq!(listener.accept().unwrap().1, bound());
        }
    }

    #[test]
    fn datagrams_that_go_with_one_call_come_one_by_one() {
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = udp_socket(peer.local_addr().unwrap()).unwrap();
        let all: Vec<u8> = (0..SEGMENTS_MAX as u8).flat_map(|n| [n; 40]).collect();
        send_segments(socket.as_fd(), &all, 40).expect("loopback and any kernel since 4.18 can do it");
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut buffer = [0; 100];
        for n in 0..SEGMENTS_MAX as u8 {
            let (length, from) = peer.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..length], [n; 40]);
            peer.send_to(&[n; 3], from).unwrap();
        }
        for n in 0..SEGMENTS_MAX as u8 {
            assert_eq!(receive_now(socket.as_fd(), &mut buffer).unwrap(), 3);
            assert_eq!(buffer[..3], [n; 3]);
        }
        let none = receive_now(socket.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        assert!(send_segments(socket.as_fd(), &[0; 1200], 4).is_err(), "more than a call may have");
    }
}

//! Implements the runtime traits of the engine with monoio, on io_uring or epoll.

#![expect(unsafe_code, reason = "monoio's sockets give access only to raw descriptors")]

use super::{
    ByteStream, DatagramSocket, Rented, Runtime, caught, deadlines, receive_now, send_now, send_segments,
    tcp_socket, timed_out, udp_socket,
};
use ::monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use ::monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

pub(crate) struct Monoio;

impl Runtime for Monoio {
    type Stream = ::monoio::net::TcpStream;
    type Datagrams = ::monoio::net::udp::UdpSocket;

    fn spawn(task: impl Future<Output = ()> + 'static) {
        ::monoio::spawn(caught(task));
    }

    fn sleep(time: Duration) -> impl Future<Output = ()> {
        ::monoio::time::sleep(time)
    }

    fn before<F: Future>(deadline: Instant, future: F) -> impl Future<Output = Option<F::Output>> {
        deadlines::before::<Monoio, F>(deadline, future)
    }

    async fn connect(
        source: Option<IpAddr>,
        destination: SocketAddr,
        deadline: Instant,
    ) -> io::Result<Self::Stream> {
        let socket = tcp_socket(socket2::Type::STREAM.nonblocking(), source, destination)?;
        match socket.connect(&destination.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let stream = ::monoio::net::TcpStream::from_std(socket.into())?;
        Self::before(deadline, stream.writable(false)).await.ok_or_else(timed_out)??;
        // SAFETY: `borrowed` is not used after `take_error` has returned, and until then `stream` keeps the descriptor open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
        match socket2::SockRef::from(&borrowed).take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    }

    fn datagrams(peer: SocketAddr) -> io::Result<Self::Datagrams> {
        ::monoio::net::udp::UdpSocket::from_std(udp_socket(peer)?)
    }
}

impl ByteStream for ::monoio::net::TcpStream {
    async fn read(&mut self, buffer: Vec<u8>, deadline: Instant) -> Rented<usize> {
        match Monoio::before(deadline, AsyncReadRent::read(self, buffer)).await {
            Some(done) => done,
            None => (Err(timed_out()), Vec::new()),
        }
    }

    async fn write(&mut self, buffer: Vec<u8>, deadline: Instant) -> Rented<()> {
        match Monoio::before(deadline, self.write_all(buffer)).await {
            Some((result, mut buffer)) => {
                buffer.clear();
                (result.map(drop), buffer)
            }
            None => (Err(timed_out()), Vec::new()),
        }
    }
}

impl DatagramSocket for ::monoio::net::udp::UdpSocket {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        send_now(borrowed(self), datagram)
    }

    fn send_all(&self, datagrams: &[u8], length: u16) -> io::Result<()> {
        send_segments(borrowed(self), datagrams, length)
    }

    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        receive_now(borrowed(self), buffer)
    }

    async fn receive(&self, buffer: Vec<u8>) -> Rented<usize> {
        self.recv(buffer).await
    }
}

fn borrowed(socket: &::monoio::net::udp::UdpSocket) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open as long as `socket` lives, which the borrow does not outlast.
    unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) }
}

/// The kernel interface that monoio uses, and how its ring is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    /// io_uring that processes completions on this thread, and only when the thread asks for them. It takes half the processor time
    /// of [`Driver::PlainRing`], and needs Linux 6.1.
    DeferredRing,
    /// io_uring as older kernels have it.
    PlainRing,
    Epoll,
}

/// Runs `main` on this thread until `main` ends.
///
/// # Errors
/// The error of the kernel, if it refuses the driver.
pub(crate) fn run(driver: Driver, main: impl Future<Output = ()> + 'static) -> io::Result<()> {
    let main = async {
        main.await;
        deadlines::clear();
    };
    match driver {
        Driver::DeferredRing => ring(deferred_ring()).build().map(|mut runtime| runtime.block_on(main)),
        Driver::PlainRing => {
            ring(io_uring::IoUring::builder()).build().map(|mut runtime| runtime.block_on(main))
        }
        Driver::Epoll => RuntimeBuilder::<LegacyDriver>::new()
            .enable_timer()
            .build()
            .map(|mut runtime| runtime.block_on(main)),
    }
}

fn deferred_ring() -> io_uring::Builder {
    let mut builder = io_uring::IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun();
    builder
}

fn ring(builder: io_uring::Builder) -> RuntimeBuilder<::monoio::time::TimeDriver<IoUringDriver>> {
    RuntimeBuilder::<IoUringDriver>::new().uring_builder(builder).enable_timer()
}

//! A bare server, with which `cargo xtask measure api` compares: hyper on monoio as in the frontend, and a handler that
//! reads the body and answers with a fixed one of the size of a fast check's answer.
//!
//! ```text
//! cargo run --release --package bench --example hello
//! ```
//! It prints `listening on http://ADDR` and serves on one thread until it is killed. Its driver is io_uring if the
//! kernel allows it, or the one of its argument: `io_uring` or `epoll`.

use checks::runtime;
use engine::config::DriverChoice;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use monoio::io::IntoPollIo;
use monoio::net::{TcpListener, TcpStream};
use monoio_compat::hyper::{MonoioIo, MonoioTimer};
use std::error::Error;
use std::io::Write;

// The allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The API's answer to a fast check of `user-123456@d123.example`.
const BODY: &[u8] = br#"{"email":"user-123456@d123.example","deliverable":null,"reason":"fast_check_passed","credits_remaining":null,"mode":"fast","suggestion":null,"checks":{"mx":true,"disposable":false,"role_account":false,"free_email":false}}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let choice = match std::env::args().nth(1).as_deref() {
        None => DriverChoice::Auto,
        Some("io_uring") => DriverChoice::IoUring,
        Some("epoll") => DriverChoice::Epoll,
        Some(other) => return Err(format!("there is no driver {other}").into()),
    };
    let choice = runtime::choose(choice)?;
    runtime::run(choice.driver, |driver| async move {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        // As in the frontend: epoll needs sockets that do not block.
        listener.set_nonblocking(driver == runtime::Driver::Epoll)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let mut output = std::io::stdout();
        writeln!(output, "listening on http://{address}")?;
        output.flush()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            monoio::spawn(converse(stream));
        }
    })?
}

async fn converse(stream: TcpStream) {
    let Ok(stream) = stream.into_poll_io() else { return };
    let served =
        http1::Builder::new().timer(MonoioTimer).serve_connection(MonoioIo::new(stream), service_fn(hello));
    // A peer may end its connection in any way.
    let _ = served.await;
}

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    request.into_body().collect().await?;
    let mut response = Response::new(Full::new(Bytes::from_static(BODY)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

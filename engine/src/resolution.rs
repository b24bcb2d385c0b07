//! The half of a shard's state that resolves domains: the DNS resolver, and the walks (look-ups from a domain to its mail hosts).

use crate::common::Common;
use crate::resolver::Resolver;
use crate::runtime::Runtime;
use crate::walks::Walks;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct Resolution<R: Runtime> {
    pub(crate) common: Rc<Common>,
    pub(crate) resolver: Resolver<R>,
    pub(crate) walks: RefCell<Walks>,
    /// A random DKIM selector, which no domain has (see `facts.rs`). It never changes, so the DNS cache can keep the replies about
    /// it.
    pub(crate) selector: String,
}

impl<R: Runtime> Resolution<R> {
    pub(crate) fn new(common: Rc<Common>, selector: String) -> Resolution<R> {
        let shared = &common.shared;
        let count = shared.shards.len();
        Resolution {
            selector,
            resolver: Resolver::new(&shared.config, Arc::clone(&shared.resolvers), count, shared.started),
            walks: RefCell::new(Walks::new(count)),
            common,
        }
    }
}

//! The half of a shard that resolves domains: the resolver, and the walks through DNS to the mail hosts of domains.

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
    /// A DKIM selector that no domain has, the same for as long as the shard lives, so that "no" is kept.
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

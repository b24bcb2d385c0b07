//! DNS as a stub resolver's client speaks it: messages, the lookup machine, lifetimes, and the way from an MX
//! set to the hosts of a site.
